// updates.h - new priorities for rows.
//
// Nothing here raises. An update that would have to, says so before it has changed anything, and Python
// does it instead.
#pragma once
#include "cuda_on_host.h"

#include "sumtree.cu"

#include "loops.h"
#include "rows.h"

namespace host {

// Gives rows that were added since their leaves: those of the total before the total now, of which
// `settled` have theirs.
static void settle(const control_t* c, const tree_t& tree, i64* settled) {
    const i64 count = min_of(c->total - *settled, c->capacity);
    *settled = c->total;
    if (count <= 0) return;
    const i64 first = (c->total - count) % c->capacity;
    const float leaf = leaf_of(c, c->max_priority);
    for (i64 i = 0; i < count; ++i)
        tree.leaves[first + i < c->capacity ? first + i : first + i - c->capacity] = leaf;
    for (i64 level = 0; level < tree.levels; ++level) sum_ring(tree, level, first, count, c->capacity);
}

// A set of rows, for finding which lane is a row's last. `slots` u32[size], a power of two above the
// lanes, zeros.
struct row_set_t {
    const i64* rows;
    u32* slots;
    u64 size;

    // Whether the row of a lane was not there yet.
    bool add(i64 lane) {
        u64 at = (u64)rows[lane] * 0x9E3779B97F4A7C15ull >> 32;
        for (;; ++at) {
            u32& slot = slots[at & (size - 1)];
            if (slot == 0) {
                slot = (u32)lane + 1;
                return true;
            }
            if (rows[slot - 1] == rows[lane]) return false;
        }
    }
};

// What an update works in, for as many lanes as it has.
struct update_scratch_t {
    i64* rows;
    i64* nodes;
    double* priorities;
    u32* slots;
    u64 slots_size;
};

// What was found of an update's lanes.
struct judgement_t {
    bool is_good;    // false: a lane has to be refused
    i64 counted;     // lanes that count, which are in the scratch in their order
    i64 stale;
    double largest;  // priority of those that count
};

// Judges all lanes, and changes nothing. Other than on a card, a row that is not held and a token of another
// buffer refuse the whole update.
static judgement_t judge_all(const control_t* c, const update_t& u, const update_scratch_t& s) {
    const i64 size = ring_size(c);
    judgement_t found = {false, 0, 0, 0.0};
    for (i64 lane = 0; lane < u.lanes; ++lane) {
        const i64 row = u.rows[lane];
        if (row < 0 || row >= size) return found;
        const double priority = priority_of(c, u, lane);
        if (!has_leaf(c, priority)) return found;
        if (u.tokens) {
            const u64 age = draw_token(c) - token_of(u, lane);
            if (age > (u64)c->total) return found;
            if (age && is_stale(c, row, token_of(u, lane))) {
                ++found.stale;
                continue;
            }
        }
        s.rows[found.counted] = row;
        s.priorities[found.counted] = priority;
        ++found.counted;
        if (priority > found.largest) found.largest = priority;
    }
    found.is_good = true;
    return found;
}

// The largest priority that is written, of `count` lanes, the last of each row.
static double largest_written(const update_scratch_t& s, i64 count) {
    row_set_t seen = {s.rows, s.slots, s.slots_size};
    memset(s.slots, 0, s.slots_size * sizeof(u32));
    double largest = 0.0;
    for (i64 lane = count - 1; lane >= 0; --lane)
        if (seen.add(lane) && s.priorities[lane] > largest) largest = s.priorities[lane];
    return largest;
}

// The parents of nodes, in their place; what follows upon its like is left out.
static i64 parents_of(i64* nodes, i64 count) {
    i64 kept = 0, last = -1;
    for (i64 i = 0; i < count; ++i) {
        const i64 parent = nodes[i] >> FAN_OUT_BITS;
        if (parent != last) nodes[kept++] = parent;
        last = parent;
    }
    return kept;
}

// The leaves of rows, and the sums above them. A chunk's leaves are still in the first cache when their
// parents are summed.
static void write_leaves(const control_t* c, const tree_t& tree, const update_scratch_t& s,
                         i64 count) {
    float leaves[CHUNK];
    i64 nodes = 0;
    for (i64 first = 0; first < count; first += CHUNK) {
        const i64 rows = min_of(CHUNK, count - first), next = first + rows;
        for (i64 i = next; i < min_of(next + CHUNK, count); ++i) PREFETCH(tree.leaves + s.rows[i]);
        loops->make_leaves(c, s.priorities + first, rows, leaves);
        for (i64 i = 0; i < rows; ++i) tree.leaves[s.rows[first + i]] = leaves[i];
        memcpy(s.nodes + nodes, s.rows + first, (size_t)rows * sizeof *s.nodes);
        const i64 parents = parents_of(s.nodes + nodes, rows);
        loops->sum_nodes(tree, 0, s.nodes + nodes, parents);
        nodes += parents;
    }
    for (i64 level = 1; level < tree.levels; ++level) {
        if (tree.nodes[level] > nodes) {
            nodes = parents_of(s.nodes, nodes);
        } else {  // all of them cost less than some of them twice
            nodes = tree.nodes[level];
            for (i64 node = 0; node < nodes; ++node) s.nodes[node] = node;
        }
        loops->sum_nodes(tree, level, s.nodes, nodes);
    }
}

static void write_all(control_t* c, const tree_t& tree, const update_scratch_t& s,
                      const judgement_t& found) {
    c->stale_updates += found.stale;
    if (!found.counted) return;
    write_leaves(c, tree, s, found.counted);
    if (found.largest > c->max_priority) {
        const double written = largest_written(s, found.counted);
        if (written > c->max_priority) c->max_priority = written;
    }
}

}  // namespace host
