// draws.cu - which rows a minibatch takes where priorities have no say; and what configures draws.
//
// Layout     indices i64[lanes]; control_t in device memory
// Invariant  every index is in [0, size) at the moment of the draw, unless the buffer is empty, which
//            the caller refuses. Nothing that may change between two draws is an argument, so that a
//            captured graph follows the buffer.
// Host twin  HostOps.sample, HostOps.sample_range
// Errors     none: what can be refused is refused before the launch
// Source     philox.cuh, control.cuh; demo split: Ball et al. 2023, arXiv:2302.02948, section 4.1
#include "common.cuh"
#include "control.cuh"
#include "philox.cuh"
#include "priorities.cuh"

// One of `span` rows: the high half of a 128-bit product, unbiased below 2**-64 * span.
__device__ __forceinline__ i64 row_of_span(u64 word, i64 span) {
    return (i64)__umul64hi(word, (u64)span);
}

// The row of a lane, from its random word.
__device__ __forceinline__ i64 draw_row(const control_t* c, u64 word, i64 lane, i64 lanes) {
    const i64 size = ring_size(c);
    if (c->demo_count > 0) {
        const i64 online = size - c->demo_count;
        if (lane < lanes / 2 || online == 0) return row_of_span(word, c->demo_count);
        return c->demo_count + row_of_span(word, online);
    }
    if (c->ere_enabled) {
        const i64 age = row_of_span(word, ere_window(c));
        return ring_row(c, -1 - age);
    }
    return row_of_span(word, size);
}

// draw_rows: indices i64[lanes] by the policy in force. A thread a lane, since lanes are independent.
extern "C" __global__ void draw_rows(const control_t* control, i64 lanes, i64* indices) {
    for (i64 lane = grid_start(); lane < lanes; lane += grid_step()) {
        const u64 word = philox_word(control->key, control->draws, lane, PURPOSE_ROWS);
        indices[lane] = draw_row(control, word, lane, lanes);
    }
}

// draw_range: indices i64[lanes], uniform in [low, high); and tokens u64[lanes], null without
// priorities. The range is part of the call.
extern "C" __global__ void draw_range(const control_t* control, i64 low, i64 high, i64 lanes,
                                      i64* indices, u64* tokens) {
    for (i64 lane = grid_start(); lane < lanes; lane += grid_step()) {
        const u64 word = philox_word(control->key, control->draws, lane, PURPOSE_ROWS);
        indices[lane] = low + row_of_span(word, high - low);
        if (tokens) tokens[lane] = draw_token(control);
    }
}

// configure_ere: one thread; the window starts whole.
extern "C" __global__ void configure_ere(control_t* control, i64 enabled, double eta, i64 c_min,
                                         i64 k_max) {
    if (!first_thread()) return;
    control->ere_enabled = enabled;
    control->eta = eta;
    control->c_min = c_min;
    control->k_max = k_max;
    control->k = 0;
    control->eta_power = 1.0;
}

// configure_per: one thread.
extern "C" __global__ void configure_per(control_t* control, double alpha, double beta,
                                         double epsilon) {
    if (!first_thread()) return;
    control->alpha = alpha;
    control->beta = beta;
    control->epsilon = epsilon;
}

// set_beta: one thread.
extern "C" __global__ void set_beta(control_t* control, double beta) {
    if (first_thread()) control->beta = beta;
}

// pin_demos: one thread.
extern "C" __global__ void pin_demos(control_t* control, i64 count) {
    if (first_thread()) control->demo_count = count;
}
