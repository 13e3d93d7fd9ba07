// control.cuh - the control block: whatever may change between two draws, in device memory.
//
// Layout     control_t, field by field as CONTROL in cpreplay/control.py (a test compares offsets)
// Invariant  0 <= demo_count < capacity; demo_count <= total; eta_power == eta ** k, by repeated
//            multiplication
// Host twin  cpreplay/control.py: ring_head, ring_size, ere_window; HostOps._shrink_ere_window
// Source     ERE: Wang & Ross 2019, arXiv:1906.04009, section 3.2
#pragma once
#include "common.cuh"

struct control_t {
    i64 total;       // rows ever written
    i64 demo_count;  // rows [0, demo_count) are never overwritten
    i64 capacity;
    u64 draws;  // the number of the next draw
    u64 key;    // splitmix64(seed)
    i64 ere_enabled;
    i64 c_min;  // the ERE window's floor, in rows
    i64 k_max;  // draws after which the window is whole again
    i64 k;      // draws since it was
    double eta;
    double eta_power;
    i64 invalid_rows;  // rows stored with values that had to be clamped
    double alpha;      // exponent of a priority: 0 draws uniformly
    double beta;       // exponent of a weight: 1 corrects for the priorities in full
    double epsilon;    // added to every |TD error|
    double max_priority;      // the largest |TD error| + epsilon so far, at least 1
    i64 invalid_priorities;   // lanes of updates that had no finite priority
    i64 stale_updates;        // lanes of updates whose row was no longer the one drawn
    u64 run;                  // where draw tokens begin; see draw_token in priorities.cuh
};

// Rows that online writes go around in.
__device__ __forceinline__ i64 ring_rows(const control_t* c) { return c->capacity - c->demo_count; }

// The row of the write `ahead` rows after the next one; before it where negative, back to the oldest.
__device__ __forceinline__ i64 ring_row(const control_t* c, i64 ahead) {
    return c->demo_count + (c->total - c->demo_count + ahead) % ring_rows(c);
}

__device__ __forceinline__ i64 ring_size(const control_t* c) {
    return c->total < c->capacity ? c->total : c->capacity;
}

// The newest rows that the next ERE draw is from.
__device__ __forceinline__ i64 ere_window(const control_t* c) {
    const i64 size = ring_size(c);
    const i64 shrunk = (i64)((double)size * c->eta_power);
    const i64 window = shrunk > c->c_min ? shrunk : c->c_min;
    return window < size ? window : size;
}

// Counts a draw; one by the policy in force also moves the ERE window. For one thread.
__device__ __forceinline__ void end_draw(control_t* c, bool by_policy) {
    c->draws += 1;
    if (!by_policy || !c->ere_enabled) return;
    c->k += 1;
    c->eta_power *= c->eta;
    if (c->k >= c->k_max) {
        c->k = 0;
        c->eta_power = 1.0;
    }
}
