// draws.h - which rows a minibatch takes.
#pragma once
#include "cuda_on_host.h"

#include "philox.cuh"

#include "draws.cu"

#include "loops.h"
#include "rows.h"

namespace host {

// Lanes for each node, on average, from which on its running sums are worth keeping; and from which on
// the next lane is likely to take the same child.
const i64 SHARED_BY = 4, CROWDED_BY = 8 * FAN_OUT;

static inline u64 word_at(const control_t* c, const u64* words, i64 lane, u32 purpose) {
    return words ? words[lane] : philox_word(c->key, c->draws, lane, purpose);
}

static void mark(const control_t* c, const target_t& target) {
    const u64 token = draw_token(c);
    for (i64 lane = 0; lane < target.lanes; ++lane) target.tokens[lane] = token;
}

static void draw_uniform(const control_t* c, const u64* words, const target_t& target) {
    for (i64 lane = 0; lane < target.lanes; ++lane) {
        const u64 word = word_at(c, words, lane, PURPOSE_ROWS);
        target.indices[lane] = draw_row(c, word, lane, target.lanes);
    }
}

static void draw_in_range(const control_t* c, const u64* words, i64 low, i64 high,
                          const target_t& target) {
    for (i64 lane = 0; lane < target.lanes; ++lane)
        target.indices[lane] =
            low + row_of_span(word_at(c, words, lane, PURPOSE_ROWS), high - low);
    if (!target.weights) return;
    for (i64 lane = 0; lane < target.lanes; ++lane) target.weights[lane] = 1.0f;
    mark(c, target);
}

static inline void prefetch_children(const tree_t& tree, i64 level, i64 node) {
    if (level == 0) {
        PREFETCH(tree.leaves + node * FAN_OUT);
    } else {
        PREFETCH(tree.sums[level - 1] + node * FAN_OUT);
        PREFETCH(tree.sums[level - 1] + node * FAN_OUT + FAN_OUT / 2);
    }
}

// Lanes [first, first + count) go down the tree level by level, so that the lines of the next level are
// on their way while others are looked at.
static void find_rows(const drawing_t& d, const u64* words, i64 first, i64 count,
                      rows_ahead_t* ahead) {
    const double slice = tree_total(d.tree) / (double)d.lanes;
    double targets[CHUNK];
    i64* const nodes = d.rows + first;
    for (i64 i = 0; i < count; ++i) {
        const u64 word = word_at(d.control, words, first + i, PURPOSE_TARGETS);
        targets[i] = ((double)(first + i) + real_of(word)) * slice;
        nodes[i] = 0;
    }
    for (i64 level = d.tree.levels - 1; level >= 0; --level) {
        const i64 lanes_each = d.lanes / d.tree.nodes[level];
        const descend_t descend = lanes_each >= CROWDED_BY  ? plain::descend_crowded
                                  : lanes_each >= SHARED_BY ? loops->descend_shared
                                                            : loops->descend;
        descend(d.tree, level, nodes, targets, count, ahead);
        if (level > 0)
            for (i64 i = 0; i < count; ++i) prefetch_children(d.tree, level - 1, nodes[i]);
    }
}

// Draws and gathers; `raw` f64[lanes] is scratch. While a chunk of lanes goes down the tree, which keeps a
// core busy, the records of the chunk before it are on their way.
static void sample_by_priority(const control_t* c, const tree_t& tree, const u64* words,
                               const columns_t& columns, const storage_t& storage,
                               const target_t& target, double* raw) {
    const drawing_t d = {c, tree, target.lanes, target.indices, raw, target.weights};
    double largest = 0.0;
    i64 before = 0;  // lanes of the last chunk
    for (i64 first = 0; first < d.lanes; first += before) {
        const i64 count = min_of(CHUNK, d.lanes - first);
        rows_ahead_t ahead = {storage, d.rows + first - before, before};
        find_rows(d, words, first, count, &ahead);
        const double largest_here = loops->weigh(d, first, count, &ahead);
        if (largest_here > largest) largest = largest_here;
        ahead.fetch(before);
        gather_lanes(columns, target, first - before, before);
        before = count;
    }
    rows_ahead_t{storage, d.rows + d.lanes - before, before}.fetch(before);
    loops->normalize(d, largest);
    mark(c, target);
    gather_lanes(columns, target, d.lanes - before, before);
}

}  // namespace host
