// ring.h - what a host buffer does in loops: draws, descents, updates, gathers and stores.
//
// The arithmetic is that of cuda_src's device functions, which are included here as they are. What is
// written here is the order of work that suits a core: lanes go down the tree level by level, so
// that the lines of the next level are on their way while others are looked at.
//
// Nothing here raises. A call that would have to, says so before it has changed anything, and Python
// does it instead.
#pragma once
#include "cuda_on_host.h"

#include "control.cuh"
#include "floats.cuh"
#include "philox.cuh"
#include "priorities.cuh"
#include "quantize.cuh"
#include "sumtree.cuh"

#include "draws.cu"
#include "nstep.cu"
#include "rows.cu"
#include "sumtree.cu"

#if defined(__GNUC__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)0)
#endif

namespace ring {

const i64 LINE = 64;
const i64 CHUNK = 64;  // lanes that go together: what they prefetch fits the first cache

// The storage arrays, for prefetching whole records.
struct storage_t {
    i64 count;
    const u8* base[MAX_COLUMNS];
    i64 stride[MAX_COLUMNS];
};

// Where a batch's columns lie, and what a draw writes beside them.
struct target_t {
    u8* at[MAX_COLUMNS];
    i64* indices;
    float* weights;  // null without priorities, as tokens
    u64* tokens;
};

static inline u64 word_at(const control_t* c, const u64* words, i64 lane, u32 purpose) {
    return words ? words[lane] : philox_word(c->key, c->draws, lane, purpose);
}

// ---- gather

static inline void prefetch_rows(const storage_t& s, const i64* rows, i64 count) {
    for (i64 a = 0; a < s.count; ++a) {
        const i64 bytes = s.stride[a] < 8 * LINE ? s.stride[a] : LINE;  // the hardware sees long runs
        for (i64 i = 0; i < count; ++i) {
            const u8* row = s.base[a] + rows[i] * s.stride[a];
            for (i64 at = 0; at < bytes; at += LINE) PREFETCH(row + at);
            PREFETCH(row + bytes - 1);
        }
    }
}

template <i64 bytes>
static inline void copy_fixed(const column_t& c, u8* out, const i64* rows, i64 count) {
    for (i64 i = 0; i < count; ++i) memcpy(out + i * bytes, c.base + rows[i] * c.stride, bytes);
}

static inline void copy_rows(const column_t& c, u8* out, const i64* rows, i64 count) {
    switch (c.bytes) {
        case 1: copy_fixed<1>(c, out, rows, count); break;
        case 4: copy_fixed<4>(c, out, rows, count); break;
        case 8: copy_fixed<8>(c, out, rows, count); break;
        case 12: copy_fixed<12>(c, out, rows, count); break;
        case 16: copy_fixed<16>(c, out, rows, count); break;
        case 24: copy_fixed<24>(c, out, rows, count); break;
        case 32: copy_fixed<32>(c, out, rows, count); break;
        case 68: copy_fixed<68>(c, out, rows, count); break;
        default:
            for (i64 i = 0; i < count; ++i)
                memcpy(out + i * c.bytes, c.base + rows[i] * c.stride, (size_t)c.bytes);
    }
}

static inline void gather_codes_of(const column_t& c, u8* out, const i64* rows, i64 count) {
    for (i64 i = 0; i < count; ++i) {
        const u8* const codes = c.base + rows[i] * c.stride;
        float* const values = (float*)(out + i * c.bytes);
        for (i64 e = 0; e < c.elements; ++e) values[e] = dequantize(codes[e]);
    }
}

static void gather(const columns_t& columns, const storage_t& storage, const target_t& target,
                   i64 lanes) {
    prefetch_rows(storage, target.indices, lanes < CHUNK ? lanes : CHUNK);
    for (i64 first = 0; first < lanes; first += CHUNK) {
        const i64 count = lanes - first < CHUNK ? lanes - first : CHUNK;
        const i64 next = first + count;
        prefetch_rows(storage, target.indices + next, lanes - next < CHUNK ? lanes - next : CHUNK);
        for (i64 i = 0; i < columns.count; ++i) {
            const column_t& c = columns.at[i];
            u8* const out = target.at[i] + first * c.bytes;
            if (c.codec == QUANTIZED)
                gather_codes_of(c, out, target.indices + first, count);
            else
                copy_rows(c, out, target.indices + first, count);
        }
    }
}

// ---- draws

static void draw_uniform(const control_t* c, const u64* words, i64 lanes, i64* rows) {
    for (i64 lane = 0; lane < lanes; ++lane)
        rows[lane] = draw_row(c, word_at(c, words, lane, PURPOSE_ROWS), lane, lanes);
}

static void draw_in_range(const control_t* c, const u64* words, i64 low, i64 high,
                          const target_t& target, i64 lanes) {
    for (i64 lane = 0; lane < lanes; ++lane)
        target.indices[lane] =
            low + row_of_span(word_at(c, words, lane, PURPOSE_ROWS), high - low);
    if (!target.weights) return;
    for (i64 lane = 0; lane < lanes; ++lane) {
        target.weights[lane] = 1.0f;
        target.tokens[lane] = draw_token(c);
    }
}

// The running sum before each child of a node, and the sum of all.
struct running_t {
    double before[FAN_OUT + 1];
};

static inline running_t running_sums(const children_t& c) {
    running_t r;
    r.before[0] = 0.0;
    for (int i = 0; i < FAN_OUT; ++i) r.before[i + 1] = r.before[i] + c.mass[i];
    return r;
}

// child_at of sumtree.cuh, by counting: a core mispredicts its branches, and registers are no concern.
static inline i64 child_of(const children_t& c, const running_t& r, double* target) {
    i64 chosen = 0;
    for (int i = 1; i <= FAN_OUT; ++i) chosen += r.before[i] <= *target;
    if (chosen == FAN_OUT) {
        chosen = 0;
        for (int i = 1; i < FAN_OUT; ++i)
            if (c.mass[i] > 0.0) chosen = i;
    }
    *target -= r.before[chosen];
    return chosen;
}

static inline void prefetch_children(const tree_t& tree, i64 level, i64 node) {
    if (level == 0) {
        PREFETCH(tree.leaves + node * FAN_OUT);
    } else {
        PREFETCH(tree.sums[level - 1] + node * FAN_OUT);
        PREFETCH(tree.sums[level - 1] + node * FAN_OUT + FAN_OUT / 2);
    }
}

// `raw` f64[lanes] is scratch.
static void draw_prioritized(const control_t* c, const tree_t& tree, const u64* words,
                             const target_t& target, i64 lanes, double* raw) {
    const double total = tree_total(tree);
    const double slice = total / (double)lanes;
    double left[CHUNK];
    for (i64 first = 0; first < lanes; first += CHUNK) {
        const i64 count = lanes - first < CHUNK ? lanes - first : CHUNK;
        i64* const nodes = target.indices + first;
        for (i64 i = 0; i < count; ++i) {
            const i64 lane = first + i;
            left[i] = ((double)lane + real_of(word_at(c, words, lane, PURPOSE_TARGETS))) * slice;
            nodes[i] = 0;
        }
        for (i64 level = tree.levels - 1; level >= 0; --level) {
            // Lanes are in the order of rows, so those that follow each other often share a node.
            i64 node = -1;
            children_t children;
            running_t running;
            for (i64 i = 0; i < count; ++i) {
                if (nodes[i] != node) {
                    node = nodes[i];
                    children = load_children(tree, level, node);
                    running = running_sums(children);
                }
                nodes[i] = node * FAN_OUT + child_of(children, running, &left[i]);
                if (level > 0) prefetch_children(tree, level - 1, nodes[i]);
            }
        }
    }
    double largest = 0.0;
    for (i64 lane = 0; lane < lanes; ++lane) {
        raw[lane] = weight_of(c, tree.leaves[target.indices[lane]], total);
        if (raw[lane] > largest) largest = raw[lane];
    }
    const u64 token = draw_token(c);
    for (i64 lane = 0; lane < lanes; ++lane) {
        target.weights[lane] = normalized(raw[lane], largest);
        target.tokens[lane] = token;
    }
}

// ---- priorities

// Gives rows that were added since `settled` their leaves: those of the total before the total now.
static void settle(const control_t* c, const tree_t& tree, i64 settled) {
    const i64 added = c->total - settled;
    const i64 count = added < c->capacity ? added : c->capacity;
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

// What `update` works in, for as many lanes as it has.
struct update_scratch_t {
    i64* rows;
    float* leaves;
    double* priorities;
    u32* slots;
    u64 slots_size;
};

// Judges all lanes. False: a lane has to be refused, and nothing was changed. Otherwise those that
// count are in `scratch`, in their order; gives how many, and how many were stale.
static bool judge_all(const control_t* c, const tree_t& tree, const update_t& u,
                      const update_scratch_t& s, i64* counted, i64* stale, double* largest) {
    const i64 size = ring_size(c);
    i64 kept = 0, skipped = 0;
    double top = 0.0;
    for (i64 lane = 0; lane < u.lanes; ++lane) {
        const i64 row = u.rows[lane];
        if (row < 0 || row >= size) return false;
        PREFETCH(tree.leaves + row);
        const double priority = priority_of(c, u, lane);
        if (!has_leaf(c, priority)) return false;
        if (u.tokens) {
            const u64 age = draw_token(c) - token_of(u, lane);
            if (age > (u64)c->total) return false;
            if (age && is_stale(c, row, token_of(u, lane))) {
                ++skipped;
                continue;
            }
        }
        s.rows[kept] = row;
        s.priorities[kept] = priority;
        s.leaves[kept] = leaf_of(c, priority);
        if (priority > top) top = priority;
        ++kept;
    }
    *counted = kept;
    *stale = skipped;
    *largest = top;
    return true;
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

static void write_update(control_t* c, const tree_t& tree, const update_scratch_t& s, i64 count,
                         double largest) {
    for (i64 lane = 0; lane < count; ++lane) tree.leaves[s.rows[lane]] = s.leaves[lane];
    for (i64 level = 0; level < tree.levels; ++level) {
        const i64 nodes = tree.nodes[level];
        if (nodes <= count) {  // all of them cost less than some of them twice
            for (i64 node = 0; node < nodes; ++node) sum_node(tree, level, node);
            continue;
        }
        i64 last = -1;
        for (i64 lane = 0; lane < count; ++lane) {
            const i64 node = s.rows[lane] >> (FAN_OUT_BITS * (level + 1));
            if (node != last) sum_node(tree, level, node);
            last = node;
        }
    }
    if (largest > c->max_priority) {
        const double written = largest_written(s, count);
        if (written > c->max_priority) c->max_priority = written;
    }
}

// ---- stores

// Whether every value of a quantised column can be stored.
static bool all_quantizable(const column_t& c, const u8* rows, i64 count) {
    const float* const values = (const float*)rows;
    for (i64 i = 0; i < count * c.elements; ++i)
        if (!is_quantizable(values[i])) return false;
    return true;
}

template <i64 bytes>
static inline void spread_fixed(const column_t& c, u8* out, const u8* in, i64 count) {
    for (i64 row = 0; row < count; ++row) memcpy(out + row * c.stride, in + row * bytes, bytes);
}

// Rows that lie side by side go into records, which are `stride` apart.
static inline void spread_rows(const column_t& c, u8* out, const u8* in, i64 count) {
    switch (c.bytes) {
        case 1: spread_fixed<1>(c, out, in, count); break;
        case 4: spread_fixed<4>(c, out, in, count); break;
        case 8: spread_fixed<8>(c, out, in, count); break;
        case 12: spread_fixed<12>(c, out, in, count); break;
        case 16: spread_fixed<16>(c, out, in, count); break;
        case 24: spread_fixed<24>(c, out, in, count); break;
        case 32: spread_fixed<32>(c, out, in, count); break;
        case 68: spread_fixed<68>(c, out, in, count); break;
        default:
            for (i64 row = 0; row < count; ++row)
                memcpy(out + row * c.stride, in + row * c.bytes, (size_t)c.bytes);
    }
}

// Rows [from, from + count) of a batch go to rows `head` on, which do not wrap.
static void store_piece(const columns_t& columns, const u8* const* batch, i64 from, i64 head,
                        i64 count) {
    for (i64 i = 0; i < columns.count; ++i) {
        const column_t& c = columns.at[i];
        u8* out = c.base + head * c.stride;
        const u8* in = batch[i] + from * c.bytes;
        if (c.codec == QUANTIZED) {
            for (i64 row = 0; row < count; ++row, out += c.stride, in += c.bytes)
                for (i64 e = 0; e < c.elements; ++e) out[e] = quantize(((const float*)in)[e]);
        } else if (c.codec == BOOLEAN) {
            for (i64 row = 0; row < count; ++row, out += c.stride, in += c.bytes)
                for (i64 e = 0; e < c.elements; ++e) out[e] = in[e] != 0;
        } else if (c.stride == c.bytes) {
            memmove(out, in, (size_t)(count * c.bytes));
        } else {
            spread_rows(c, out, in, count);
        }
    }
}

// Rows of a batch go to the head, in order, and are counted. What the batch itself overwrites is not
// written at all.
static void store(control_t* c, const columns_t& columns, const u8* const* batch, i64 rows) {
    i64 done = rows > ring_rows(c) ? rows - ring_rows(c) : 0;
    while (done < rows) {  // twice where the batch wraps
        const i64 head = ring_row(c, done);
        const i64 room = c->capacity - head;
        const i64 count = rows - done < room ? rows - done : room;
        store_piece(columns, batch, done, head, count);
        done += count;
    }
    c->total += rows;
}

// ---- n-step

// Windows that a step completes, in all environments.
static i64 count_windows(const nstep_t& s) {
    i64 windows = 0;
    for (i64 env = 0; env < s.n_envs; ++env) windows += move_of(s, env).complete;
    return windows;
}

// append_steps, whose output has the complete windows alone, in the same order.
static void append(const nstep_t& s) {
    i64 row = 0;
    for (i64 env = 0; env < s.n_envs; ++env) {
        const move_t m = move_of(s, env);
        if (!m.stepped) continue;
        keep_step(s, env, m);
        for (i64 j = 0; j < m.complete; ++j, ++row) {
            copy_window(s, env, m, j, row);
            write_window(s, env, row, (m.start + j) % s.n, m.held - j);
            s.valid[row] = 1;
        }
        move_ring(s, env, m);
    }
}

}  // namespace ring
