// loops.h - which functions work on the tree: the fastest that this processor has.
#pragma once
#include "tree.h"
#include "wide.h"

namespace host {

typedef void (*descend_t)(const tree_t& tree, i64 level, i64* nodes, double* targets, i64 lanes,
                          rows_ahead_t* ahead);

struct loops_t {
    descend_t descend, descend_shared;
    double (*weigh)(const drawing_t& d, i64 first, i64 count, rows_ahead_t* ahead);
    void (*normalize)(const drawing_t& d, double largest);
    void (*make_leaves)(const control_t* c, const double* priorities, i64 count, float* leaves);
    void (*sum_nodes)(const tree_t& tree, i64 level, const i64* nodes, i64 count);
};

static const loops_t PLAIN_LOOPS = {plain::descend,   plain::descend_shared, plain::weigh,
                                    plain::normalize, plain::make_leaves,    plain::sum_nodes};

#if HAS_WIDE
static const loops_t WIDE_LOOPS = {wide::descend,   wide::descend_shared, wide::weigh,
                                   wide::normalize, wide::make_leaves,    wide::sum_nodes};
#endif

// Gives null where this processor has no wide ones.
static inline const loops_t* wide_loops() {
#if HAS_WIDE
    if (wide::is_supported()) return &WIDE_LOOPS;
#endif
    return nullptr;
}

static const loops_t* loops = wide_loops() ? wide_loops() : &PLAIN_LOOPS;

}  // namespace host
