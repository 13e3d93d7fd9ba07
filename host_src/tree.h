// tree.h - descents, weights, leaves and sums, lane after lane: for every processor.
//
// The arithmetic is that of cuda_src's device functions. What is written here is the order of work that
// suits a core. wide.h has the same functions for four lanes at a time; loops.h chooses.
#pragma once
#include "cuda_on_host.h"

#include "control.cuh"
#include "priorities.cuh"
#include "sumtree.cuh"

#include "rows.h"

namespace host {

// A draw by priority.
struct drawing_t {
    const control_t* control;
    const tree_t& tree;
    i64 lanes;
    i64* rows;
    double* raw;  // weights before they are divided by the largest
    float* weights;
};

}  // namespace host

namespace host::plain {

static inline i64 child_below(const tree_t& tree, i64 level, i64 node, double* target) {
    return node * FAN_OUT + child_at(load_children(tree, level, node), target);
}

// How many of the running sums before the children of a node are not above a target.
static inline i64 count_passed(const double* before, double target) {
    i64 passed = 0;
    for (int child = 0; child < FAN_OUT; ++child) passed += before[child] <= target;
    return passed;
}

// The running sums of a node that lanes share.
struct shared_node_t {
    i64 node = -1;
    alignas(32) double before[FAN_OUT];  // the sum before each child
    double sum = 0.0;

    void load(const tree_t& tree, i64 level, i64 number) {
        node = number;
        const children_t children = load_children(tree, level, number);
        sum = 0.0;
        for (int child = 0; child < FAN_OUT; ++child) {
            before[child] = sum;
            sum += children.mass[child];
        }
    }
};

// One level down for lanes that often share a node, since they are in the order of rows: its running
// sums are kept. A child is passed where the sum before the next one is not above the target: the rule
// of child_at without its branches, which a core mispredicts.
template <i64 (*count)(const double* before, double target)>
__forceinline__ void descend_together(const tree_t& tree, i64 level, i64* nodes, double* targets,
                                      i64 lanes, rows_ahead_t* ahead) {
    shared_node_t shared;
    for (i64 lane = 0; lane < lanes; ++lane) {
        if (lane % 4 == 0) ahead->fetch(1);
        double& target = targets[lane];
        if (nodes[lane] != shared.node) shared.load(tree, level, nodes[lane]);
        if (target < shared.sum) {
            const i64 child = count(shared.before, target) - 1;
            nodes[lane] = shared.node * FAN_OUT + child;
            target -= shared.before[child];
        } else {  // by rounding
            nodes[lane] = child_below(tree, level, shared.node, &target);
        }
    }
}

// The same for lanes that often share even the child: from one lane to the next it seldom changes.
static void descend_crowded(const tree_t& tree, i64 level, i64* nodes, double* targets, i64 lanes,
                            rows_ahead_t* ahead) {
    shared_node_t shared;
    i64 child = 0;
    for (i64 lane = 0; lane < lanes; ++lane) {
        if (lane % 4 == 0) ahead->fetch(1);
        double& target = targets[lane];
        if (nodes[lane] != shared.node) {
            shared.load(tree, level, nodes[lane]);
            child = 0;
        }
        if (target < shared.sum) {
            while (child + 1 < FAN_OUT && shared.before[child + 1] <= target) ++child;
            nodes[lane] = shared.node * FAN_OUT + child;
            target -= shared.before[child];
        } else {  // by rounding
            nodes[lane] = child_below(tree, level, shared.node, &target);
        }
    }
}

static void descend_shared(const tree_t& tree, i64 level, i64* nodes, double* targets, i64 lanes,
                           rows_ahead_t* ahead) {
    descend_together<count_passed>(tree, level, nodes, targets, lanes, ahead);
}

// One level down for lanes of which most have a node of their own.
static void descend(const tree_t& tree, i64 level, i64* nodes, double* targets, i64 lanes,
                    rows_ahead_t* ahead) {
    for (i64 lane = 0; lane < lanes; ++lane) {
        if (lane % 4 == 0) ahead->fetch(1);
        nodes[lane] = child_below(tree, level, nodes[lane], &targets[lane]);
    }
}

static inline double weight(const drawing_t& d, i64 lane) {
    return weight_of(d.control, d.tree.leaves[d.rows[lane]], tree_total(d.tree));
}

// The raw weights of lanes [first, first + count). Gives the largest.
static double weigh(const drawing_t& d, i64 first, i64 count, rows_ahead_t* ahead) {
    double largest = 0.0;
    for (i64 lane = first; lane < first + count; ++lane) {
        if (lane % 2 == 0) ahead->fetch(1);
        d.raw[lane] = weight(d, lane);
        if (d.raw[lane] > largest) largest = d.raw[lane];
    }
    return largest;
}

static void normalize(const drawing_t& d, double largest) {
    for (i64 lane = 0; lane < d.lanes; ++lane) d.weights[lane] = normalized(d.raw[lane], largest);
}

static void make_leaves(const control_t* c, const double* priorities, i64 count, float* leaves) {
    for (i64 i = 0; i < count; ++i) leaves[i] = leaf_of(c, priorities[i]);
}

static void sum_nodes(const tree_t& tree, i64 level, const i64* nodes, i64 count) {
    for (i64 i = 0; i < count; ++i) sum_node(tree, level, nodes[i]);
}

}  // namespace host::plain
