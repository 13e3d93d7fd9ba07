// priorities.cuh - what a TD error is worth, and which lanes of an update count.
//
// Layout     tokens u64[lanes]: the total at the draw, counted from control->run; see draw_token
// Host twin  cpreplay/priorities.py, cpreplay/host_priorities.py
// Source     Schaul, Quan, Antonoglou, Silver, "Prioritized Experience Replay", ICLR 2016,
//            arXiv:1511.05952: equation 1 and sections 3.3 and 3.4
#pragma once
#include "common.cuh"
#include "control.cuh"
#include "floats.cuh"

#define LARGEST_DOUBLE 0x1.fffffffffffffp1023
#define SMALLEST_MASS 0x1p-126       // of a row that was written: float32 is flushed to 0 below it
#define FLOAT_OVERFLOW 0x1.ffffffp127  // the smallest number that float32 rounds to infinity

// Powers that NumPy takes without pow are exact here too. The others may differ in their last bit
// from one library to the next.
__device__ __forceinline__ double power(double base, double exponent) {
    if (exponent == 1.0) return base;
    if (exponent == 0.5) return sqrt(base);
    if (exponent == 0.0) return 1.0;
    if (exponent == -1.0) return 1.0 / base;
    return pow(base, exponent);
}

// The leaf of a priority, which is |TD error| + epsilon.
__device__ __forceinline__ float leaf_of(const control_t* c, double priority) {
    const double leaf = power(priority, c->alpha);
    return __double2float_rn(leaf > SMALLEST_MASS ? leaf : SMALLEST_MASS);
}

// Whether there is one: a finite number. alpha is at most 1, so most priorities need no power.
__device__ __forceinline__ bool has_leaf(const control_t* c, double priority) {
    if (priority < FLOAT_OVERFLOW) return true;
    if (!(priority <= LARGEST_DOUBLE)) return false;  // NaN too
    return power(priority, c->alpha) < FLOAT_OVERFLOW;
}

// The importance-sampling weight of a leaf, before it is divided by the batch's largest.
__device__ __forceinline__ double weight_of(const control_t* c, float leaf, double total) {
    return power((double)ring_size(c) * (double)leaf / total, -c->beta);
}

// Divided by the largest, and rounded once. What float32 would flush to 0 is 0 on every back end.
__device__ __forceinline__ float normalized(double weight, double largest) {
    const double quotient = weight / largest;
    return quotient < SMALLEST_MASS ? 0.0f : __double2float_rn(quotient);
}

// What a draw leaves in each lane. Buffers, and the times before and after a restored state, have
// runs of their own, so that a token of another is seen to be none of ours.
__device__ __forceinline__ u64 draw_token(const control_t* c) { return (u64)c->total + c->run; }

// Whether a row is not the one that a lane drew: it was overwritten since, or the draw was not ours.
__device__ __forceinline__ bool is_stale(const control_t* c, i64 row, u64 token) {
    const u64 age = draw_token(c) - token;
    if (age > (u64)c->total) return true;
    const i64 since = (i64)age;
    const i64 ahead = row - (c->total - since) % c->capacity;  // of the head at the draw
    return (ahead < 0 ? ahead + c->capacity : ahead) < since;
}

struct update_t {
    i64 lanes;
    const i64* rows;
    const u32* tokens;   // low and high word of each lane's; null: rows that nobody vouches for
    const void* errors;  // float32 or float64
    i64 error_bytes;
};

// By its words, which may lie on any multiple of 4.
__device__ __forceinline__ u64 token_of(const update_t& u, i64 lane) {
    return (u64)u.tokens[2 * lane + 1] << 32 | u.tokens[2 * lane];
}

enum verdict_t { WRITTEN, STALE, INVALID };

__device__ __forceinline__ double priority_of(const control_t* c, const update_t& u, i64 lane) {
    const double error = u.error_bytes == 8 ? ((const double*)u.errors)[lane]
                                            : exact_double(((const u32*)u.errors)[lane]);
    return fabs(error) + c->epsilon;
}

// What becomes of a lane, but for another lane that writes the same row.
__device__ __forceinline__ verdict_t judge(const control_t* c, const update_t& u, i64 lane) {
    const i64 row = u.rows[lane];
    if (row < 0 || row >= ring_size(c)) return STALE;
    if (u.tokens && is_stale(c, row, token_of(u, lane))) return STALE;
    return has_leaf(c, priority_of(c, u, lane)) ? WRITTEN : INVALID;
}
