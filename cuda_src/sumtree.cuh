// sumtree.cuh - a sum tree: sixteen children a node, leaves float32, sums float64.
//
// Layout     leaves f32[capacity], sums[0] f64 their parents, and so on up to one root; each level is
//            padded with zeros to whole nodes of sixteen, and begins on 64 bytes or more. So the
//            children of a node are one cache line of leaves, or two of sums.
// Invariant  a sum is child 0 + child 1 + ... + child 15 in float64, in this order: recomputed, never
//            adjusted, so that equal leaves give equal trees on every back end.
// Host twin  cpreplay/host_tree.py, cpreplay/tree_levels.py
#pragma once
#include "common.cuh"

#define FAN_OUT 16
#define FAN_OUT_BITS 4
#define MAX_SUMS 8  // levels of sums over 2**31 leaves

struct tree_t {
    i64 levels;              // of sums; the last is the root alone
    float* leaves;
    double* sums[MAX_SUMS];
    i64 nodes[MAX_SUMS];     // of each level of sums
    u64* tickets[MAX_SUMS];  // for each sum the last update that recomputed it
    u64* updates;            // how many there were
    i32* winners;            // for each leaf 1 + the lane that is to write it; 0 between updates
};

struct children_t {
    double mass[FAN_OUT];
};

// The children of a node one level above the leaves (level 0), or above sums[level - 1]; in the widest
// loads there are.
__device__ __forceinline__ children_t load_children(const tree_t& tree, i64 level, i64 node) {
    children_t c;
    if (level == 0) {
        const float4* quads = (const float4*)(tree.leaves + node * FAN_OUT);
#pragma unroll
        for (int i = 0; i < FAN_OUT / 4; ++i) {
            const float4 four = quads[i];
            c.mass[4 * i] = (double)four.x;
            c.mass[4 * i + 1] = (double)four.y;
            c.mass[4 * i + 2] = (double)four.z;
            c.mass[4 * i + 3] = (double)four.w;
        }
    } else {
        const double2* pairs = (const double2*)(tree.sums[level - 1] + node * FAN_OUT);
#pragma unroll
        for (int i = 0; i < FAN_OUT / 2; ++i) {
            const double2 two = pairs[i];
            c.mass[2 * i] = two.x;
            c.mass[2 * i + 1] = two.y;
        }
    }
    return c;
}

// Recomputes sums[level][node].
__device__ __forceinline__ void sum_node(const tree_t& tree, i64 level, i64 node) {
    const children_t c = load_children(tree, level, node);
    double sum = c.mass[0];
#pragma unroll
    for (int i = 1; i < FAN_OUT; ++i) sum += c.mass[i];
    tree.sums[level][node] = sum;
}

__device__ __forceinline__ double tree_total(const tree_t& tree) {
    return tree.sums[tree.levels - 1][0];
}

// Which child of a node is at `target`, which becomes what is left of it: the first whose running sum
// exceeds it, else the last that has mass. So none without mass is ever entered, also where rounding
// left a target at or above the node's sum. host_src/tree.h has the same rule for sums that are kept.
__device__ __forceinline__ i64 child_at(const children_t& c, double* target) {
    double running = 0.0, before = 0.0;
    i64 chosen = 0;
    bool found = false;
#pragma unroll
    for (int i = 0; i < FAN_OUT; ++i) {
        const double after = running + c.mass[i];
        if (!found && c.mass[i] > 0.0) {
            chosen = i;
            before = running;
            found = after > *target;
        }
        running = after;
    }
    *target -= before;
    return chosen;
}

// The row at `target`, in [0, total).
__device__ __forceinline__ i64 find_row(const tree_t& tree, double target) {
    i64 node = 0;
    for (i64 level = tree.levels - 1; level >= 0; --level)
        node = node * FAN_OUT + child_at(load_children(tree, level, node), &target);
    return node;
}

// Recomputes the ancestor of a row at one level, unless another lane of this update has taken that
// upon itself: whether this lane did.
__device__ __forceinline__ bool sum_ancestor(const tree_t& tree, i64 level, i64 row, u64 update) {
    const i64 node = row >> (FAN_OUT_BITS * (level + 1));
    if (atomicExch(&tree.tickets[level][node], update) == update) return false;
    sum_node(tree, level, node);
    return true;
}
