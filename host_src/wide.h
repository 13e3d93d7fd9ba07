// wide.h - the functions of tree.h for four lanes at a time, on x86-64 processors with AVX2 and FMA.
//
// Results are those of the plain functions, bit for bit. Sums are added in the same order. Powers are
// only estimated, with a bound on the error; where that leaves more than one float32 to choose from, the
// plain function decides.
#pragma once
#include "tree.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define HAS_WIDE 1
#define WIDE __attribute__((target("avx2,fma")))

namespace host::wide {

const i64 LANES = 4;
const int ALL_LANES = 15;  // a bit for each

static inline bool is_supported() {
    __builtin_cpu_init();  // Clang asks for it before static objects are made
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

// ---- descents

// Four lanes on their way past the children of their nodes.
struct passing_t {
    __m256d target, running, before;  // running sums: of the children so far, of those that were passed
    __m256i passed;
};

WIDE static inline void pass(passing_t* p, __m256d masses) {
    p->running = _mm256_add_pd(p->running, masses);
    const __m256d is_passed = _mm256_cmp_pd(p->running, p->target, _CMP_LE_OQ);
    p->passed = _mm256_sub_epi64(p->passed, _mm256_castpd_si256(is_passed));
    p->before = _mm256_max_pd(p->before, _mm256_and_pd(p->running, is_passed));
}

WIDE static inline __m256d two_and_two(const double* low, const double* high) {
    return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_load_pd(low)), _mm_load_pd(high), 1);
}

// Children [child, child + 4) of four nodes: of each a vector with one of every node.
struct masses_t {
    __m256d of[4];
};

WIDE static inline masses_t load_masses(const double* const* nodes, int child) {
    const __m256d even = two_and_two(nodes[0] + child, nodes[2] + child);
    const __m256d odd = two_and_two(nodes[1] + child, nodes[3] + child);
    const __m256d next_even = two_and_two(nodes[0] + child + 2, nodes[2] + child + 2);
    const __m256d next_odd = two_and_two(nodes[1] + child + 2, nodes[3] + child + 2);
    return {{_mm256_unpacklo_pd(even, odd), _mm256_unpackhi_pd(even, odd),
             _mm256_unpacklo_pd(next_even, next_odd), _mm256_unpackhi_pd(next_even, next_odd)}};
}

WIDE static inline masses_t load_masses(const float* const* nodes, int child) {
    __m256d of[4];
    for (int i = 0; i < 4; ++i) of[i] = _mm256_cvtps_pd(_mm_load_ps(nodes[i] + child));
    const __m256d even = _mm256_unpacklo_pd(of[0], of[1]), odd = _mm256_unpackhi_pd(of[0], of[1]);
    const __m256d even2 = _mm256_unpacklo_pd(of[2], of[3]), odd2 = _mm256_unpackhi_pd(of[2], of[3]);
    return {{_mm256_permute2f128_pd(even, even2, 0x20), _mm256_permute2f128_pd(odd, odd2, 0x20),
             _mm256_permute2f128_pd(even, even2, 0x31), _mm256_permute2f128_pd(odd, odd2, 0x31)}};
}

// The sums of four nodes, in the order of sum_node.
template <typename mass_t>
WIDE static inline __m256d sums_of(const mass_t* children, const i64* nodes) {
    const mass_t* of[LANES];
    for (int lane = 0; lane < LANES; ++lane) of[lane] = children + nodes[lane] * FAN_OUT;
    __m256d sum = _mm256_setzero_pd();  // 0 + x is x: no mass is -0
#pragma GCC unroll 4
    for (int child = 0; child < FAN_OUT; child += 4) {
        const masses_t masses = load_masses(of, child);
        for (int i = 0; i < 4; ++i) sum = _mm256_add_pd(sum, masses.of[i]);
    }
    return sum;
}

// Four lanes go one level down, each in a node of its own. False: a target is beyond its node's sum, by
// rounding, and nothing was changed.
template <typename mass_t>
WIDE static inline bool descend_four(const mass_t* children, i64* nodes, double* targets) {
    const mass_t* of[LANES];
    for (int lane = 0; lane < LANES; ++lane) of[lane] = children + nodes[lane] * FAN_OUT;
    passing_t p;
    p.target = _mm256_loadu_pd(targets);
    p.running = p.before = _mm256_setzero_pd();
    p.passed = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int child = 0; child < FAN_OUT; child += 4) {
        const masses_t masses = load_masses(of, child);
        for (int i = 0; i < 4; ++i) pass(&p, masses.of[i]);
    }
    const __m256i beyond = _mm256_cmpeq_epi64(p.passed, _mm256_set1_epi64x(FAN_OUT));
    if (!_mm256_testz_si256(beyond, beyond)) return false;
    _mm256_storeu_pd(targets, _mm256_sub_pd(p.target, p.before));
    const __m256i node = _mm256_loadu_si256((const __m256i*)nodes);
    const __m256i below = _mm256_add_epi64(_mm256_slli_epi64(node, FAN_OUT_BITS), p.passed);
    _mm256_storeu_si256((__m256i*)nodes, below);
    return true;
}

WIDE static void descend(const tree_t& tree, i64 level, i64* nodes, double* targets, i64 lanes,
                         rows_ahead_t* ahead) {
    i64 lane = 0;
    for (; lane + LANES <= lanes; lane += LANES) {
        ahead->fetch(1);
        const bool done = level == 0
                              ? descend_four(tree.leaves, nodes + lane, targets + lane)
                              : descend_four(tree.sums[level - 1], nodes + lane, targets + lane);
        if (!done) plain::descend(tree, level, nodes + lane, targets + lane, LANES, ahead);
    }
    plain::descend(tree, level, nodes + lane, targets + lane, lanes - lane, ahead);
}

// How many of the running sums before the children of a node are not above a target.
WIDE static inline i64 count_passed(const double* before, double target) {
    const __m256d at = _mm256_set1_pd(target);
    u32 passed = 0;
    for (int child = 0; child < FAN_OUT; child += 4) {
        const __m256d is_passed = _mm256_cmp_pd(_mm256_load_pd(before + child), at, _CMP_LE_OQ);
        passed |= (u32)_mm256_movemask_pd(is_passed) << child;
    }
    return __builtin_popcount(passed);
}

WIDE static void descend_shared(const tree_t& tree, i64 level, i64* nodes, double* targets,
                                i64 lanes, rows_ahead_t* ahead) {
    plain::descend_together<count_passed>(tree, level, nodes, targets, lanes, ahead);
}

WIDE static void sum_nodes(const tree_t& tree, i64 level, const i64* nodes, i64 count) {
    double* const sums = tree.sums[level];
    i64 i = 0;
    for (; i + LANES <= count; i += LANES) {
        alignas(32) double four[LANES];
        _mm256_store_pd(four, level == 0 ? sums_of(tree.leaves, nodes + i)
                                         : sums_of(tree.sums[level - 1], nodes + i));
        for (int lane = 0; lane < LANES; ++lane) sums[nodes[i + lane]] = four[lane];
    }
    plain::sum_nodes(tree, level, nodes + i, count - i);
}

// ---- powers

// Estimates of a power are within this part of it, and those of a quotient of two within the other: four
// times what the terms below and the rounding of logarithms up to 300 come to.
const double POWER_ERROR = 0x1p-42, QUOTIENT_ERROR = 0x1p-40;

WIDE static inline __m256d all(double x) { return _mm256_set1_pd(x); }

WIDE static inline __m256i all(i64 x) { return _mm256_set1_epi64x(x); }

// A sum of terms[i] * x ** i.
template <int count>
WIDE static inline __m256d polynomial(const double (&terms)[count], __m256d x) {
    __m256d sum = all(terms[count - 1]);
#pragma GCC unroll 16
    for (int i = count - 2; i >= 0; --i) sum = _mm256_fmadd_pd(sum, x, all(terms[i]));
    return sum;
}

// log2 of positive normal numbers below 2**1000: with x = m * 2**k and m in [0.7, 1.4), and
// s = (m - 1) / (m + 1), it is k + 2 / ln 2 * (s + s**3 / 3 + s**5 / 5 + ...); |s| < 0.1765. The terms
// from s**19 on are below 2**-50.
WIDE static inline __m256d log2_of(__m256d x) {
    static const double terms[] = {1.0 / 1, 1.0 / 3,  1.0 / 5,  1.0 / 7, 1.0 / 9,
                                   1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17};
    const i64 lowest = 0x3FE6666600000000;      // 0.7
    const __m256i bits = _mm256_castpd_si256(x);
    // Its exponent and 1024, so that it is positive.
    const __m256i k = _mm256_srli_epi64(
        _mm256_add_epi64(bits, all((1024LL << 52) - lowest)), 52);
    const __m256i power = _mm256_slli_epi64(_mm256_sub_epi64(k, all((i64)1024)), 52);
    const __m256d m = _mm256_castsi256_pd(_mm256_sub_epi64(bits, power));
    // 2**52 + k has k in its last bits.
    const __m256d exponent = _mm256_sub_pd(
        _mm256_castsi256_pd(_mm256_or_si256(k, all(0x4330000000000000LL))), all(0x1p52 + 1024));
    const __m256d s = _mm256_div_pd(_mm256_sub_pd(m, all(1.0)), _mm256_add_pd(m, all(1.0)));
    const __m256d series = _mm256_mul_pd(s, polynomial(terms, _mm256_mul_pd(s, s)));
    return _mm256_fmadd_pd(series, all(2.8853900817779268), exponent);
}

// 2 ** x for |x| < 1000: of the nearest integer, and of the rest, |z| < 0.35 by its power series. The
// terms from z**12 on are below 2**-47.
WIDE static inline __m256d exp2_of(__m256d x) {
    static const double terms[] = {1.0,       1.0,        1.0 / 2,      1.0 / 6,
                                   1.0 / 24,  1.0 / 120,  1.0 / 720,    1.0 / 5040,
                                   1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800};
    // Added to it, a number has its nearest integer in its last bits.
    const __m256d shift = all(0x1.8p52);
    const __m256d shifted = _mm256_add_pd(x, shift);
    const __m256d rest = _mm256_sub_pd(x, _mm256_sub_pd(shifted, shift));
    const __m256d z = _mm256_mul_pd(rest, all(0.6931471805599453));
    const __m256i scale = _mm256_slli_epi64(_mm256_castpd_si256(shifted), 52);
    return _mm256_castsi256_pd(
        _mm256_add_epi64(_mm256_castpd_si256(polynomial(terms, z)), scale));
}

// Of bases from 2**-300 to 2**300 and an exponent in [-1, 1].
WIDE static inline __m256d power_of(__m256d base, double exponent) {
    return exp2_of(_mm256_mul_pd(log2_of(base), all(exponent)));
}

WIDE static void estimate_powers(double* bases, i64 count, double exponent) {
    for (i64 i = 0; i + LANES <= count; i += LANES)
        _mm256_storeu_pd(bases + i, power_of(_mm256_loadu_pd(bases + i), exponent));
}

// Numbers that are within `error` of `x`, rounded to float32. Gives a bit for each lane in which all of
// them round to the same.
WIDE static inline int round_to_float(__m256d x, double error, __m128* rounded) {
    const __m128 low = _mm256_cvtpd_ps(_mm256_mul_pd(x, all(1.0 - error)));
    *rounded = _mm256_cvtpd_ps(_mm256_mul_pd(x, all(1.0 + error)));
    return _mm_movemask_ps(_mm_cmpeq_ps(low, *rounded));
}

// A bit for each lane that is neither near float32's smallest normal number nor near its largest one.
WIDE static inline int in_range(__m256d x) {
    return _mm256_movemask_pd(_mm256_and_pd(_mm256_cmp_pd(x, all(0x1p-120), _CMP_GE_OQ),
                                            _mm256_cmp_pd(x, all(0x1p120), _CMP_LE_OQ)));
}

// Exponents whose powers need no logarithm.
static inline bool is_quick(double exponent) {
    return exponent == 1.0 || exponent == 0.5 || exponent == 0.0 || exponent == -1.0;
}

// ---- leaves and weights

WIDE static void make_leaves(const control_t* c, const double* priorities, i64 count, float* leaves) {
    i64 i = 0;
    if (!is_quick(c->alpha)) {
        for (; i + LANES <= count; i += LANES) {
            const __m256d base = _mm256_loadu_pd(priorities + i);
            const __m256d leaf = power_of(base, c->alpha);
            __m128 rounded;
            const int sure =
                round_to_float(leaf, POWER_ERROR, &rounded) & in_range(base) & in_range(leaf);
            _mm_storeu_ps(leaves + i, rounded);
            if (sure == ALL_LANES) continue;
            for (int lane = 0; lane < LANES; ++lane)
                if (!(sure >> lane & 1)) leaves[i + lane] = leaf_of(c, priorities[i + lane]);
        }
    }
    plain::make_leaves(c, priorities + i, count - i, leaves + i);
}

// Estimates, unless they take no logarithm. A leaf is a normal float32, so bases are above 2**-285.
WIDE static double weigh(const drawing_t& d, i64 first, i64 count, rows_ahead_t* ahead) {
    const __m256d scale = all((double)ring_size(d.control) / tree_total(d.tree));
    const float* const leaves = d.tree.leaves;
    double largest = 0.0;
    i64 lane = first;
    if (!is_quick(-d.control->beta)) {
        for (; lane + LANES <= first + count; lane += LANES) {
            ahead->fetch(2);
            const i64* const rows = d.rows + lane;
            const __m128 four =
                _mm_setr_ps(leaves[rows[0]], leaves[rows[1]], leaves[rows[2]], leaves[rows[3]]);
            const __m256d base = _mm256_mul_pd(_mm256_cvtps_pd(four), scale);
            _mm256_storeu_pd(d.raw + lane, power_of(base, -d.control->beta));
            for (int i = 0; i < LANES; ++i)
                if (d.raw[lane + i] > largest) largest = d.raw[lane + i];
        }
    }
    const double of_rest = plain::weigh(d, lane, first + count - lane, ahead);
    return of_rest > largest ? of_rest : largest;
}

// The largest weight itself, of the lanes whose estimate may be of it.
static double largest_weight(const drawing_t& d, double at_least) {
    double largest = 0.0;
    for (i64 lane = 0; lane < d.lanes; ++lane) {
        if (d.raw[lane] < at_least) continue;
        const double weight = plain::weight(d, lane);
        if (weight > largest) largest = weight;
    }
    return largest;
}

WIDE static void normalize(const drawing_t& d, double largest) {
    double exact = 0.0;  // the largest, once a lane needs it
    for (i64 first = 0; first < d.lanes; first += LANES) {
        int sure = 0;
        if (first + LANES <= d.lanes) {
            const __m256d quotient = _mm256_div_pd(_mm256_loadu_pd(d.raw + first), all(largest));
            __m128 rounded;
            sure = round_to_float(quotient, QUOTIENT_ERROR, &rounded) & in_range(quotient);
            _mm_storeu_ps(d.weights + first, rounded);
            if (sure == ALL_LANES) continue;
        }
        if (exact == 0.0) exact = largest_weight(d, largest * (1.0 - QUOTIENT_ERROR));
        for (i64 lane = first; lane < first + LANES && lane < d.lanes; ++lane)
            if (!(sure >> (lane - first) & 1))
                d.weights[lane] = normalized(plain::weight(d, lane), exact);
    }
}

}  // namespace host::wide

#endif
