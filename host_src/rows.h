// rows.h - rows of a ring copied into minibatches, and batches into the ring.
#pragma once
#include <utility>

#include "cuda_on_host.h"

#include "control.cuh"
#include "quantize.cuh"

#include "rows.cu"

#if defined(__GNUC__)
#define PREFETCH(address) __builtin_prefetch((const void*)(address))
#else
#define PREFETCH(address) ((void)0)
#endif

namespace host {

const i64 LINE = 64;
const i64 LONG_RUN = 8 * LINE;  // longer ones prefetch themselves, once they are begun

// Lanes that are worked on together: what they need fits the first cache.
const i64 CHUNK = 128;

static inline i64 min_of(i64 a, i64 b) { return a < b ? a : b; }

// The storage arrays, for prefetching whole records.
struct storage_t {
    i64 count;
    const u8* base[MAX_COLUMNS];
    i64 stride[MAX_COLUMNS];
};

// Where the columns of a minibatch lie, and what a draw writes beside them.
struct target_t {
    i64 lanes;
    u8* at[MAX_COLUMNS];
    i64* indices;
    float* weights;  // null without priorities, as tokens
    u64* tokens;
};

// ---- copies of rows

// `to` and `from` give where row i begins. A row whose size the compiler knows takes half the time of
// another, so there is a loop for every number of 4-byte words up to FIXED_WORDS.
template <i64 bytes, typename to_t, typename from_t>
static void copy_fixed(i64 rows, to_t to, from_t from) {
    for (i64 i = 0; i < rows; ++i) memcpy(to(i), from(i), (size_t)bytes);
}

const i64 FIXED_WORDS = 32;

template <typename to_t, typename from_t, i64... words>
static inline void copy_words(i64 count, i64 rows, to_t to, from_t from,
                              std::integer_sequence<i64, words...>) {
    typedef void (*copy_t)(i64, to_t, from_t);
    static const copy_t copies[] = {copy_fixed<4 * (words + 1), to_t, from_t>...};
    copies[count - 1](rows, to, from);
}

template <typename to_t, typename from_t>
static inline void copy_rows(i64 rows, i64 bytes, to_t to, from_t from) {
    if (bytes == 1)
        copy_fixed<1>(rows, to, from);
    else if (bytes % 4 == 0 && bytes <= 4 * FIXED_WORDS)
        copy_words(bytes / 4, rows, to, from, std::make_integer_sequence<i64, FIXED_WORDS>());
    else
        for (i64 i = 0; i < rows; ++i) memcpy(to(i), from(i), (size_t)bytes);
}

// ---- gather

// Inlined by force, as all that only prefetch: GCC leaves out calls of functions that have no effect.
__forceinline__ void prefetch_rows(const storage_t& s, const i64* rows, i64 count) {
    for (i64 i = 0; i < count; ++i)
        for (i64 a = 0; a < s.count; ++a) {
            const i64 bytes = s.stride[a] <= LONG_RUN ? s.stride[a] : LINE;
            const u64 row = (u64)(s.base[a] + rows[i] * s.stride[a]), end = row + bytes;
            for (u64 line = row / LINE * LINE; line < end; line += LINE) PREFETCH(line);
        }
}

// Rows whose records are asked for a few at a time, between other work: a core has only so many lines on
// their way, and stops where it asks for more.
struct rows_ahead_t {
    const storage_t& storage;
    const i64* rows;
    i64 left;

    void fetch(i64 count) {
        const i64 fetched = min_of(count, left);
        prefetch_rows(storage, rows, fetched);
        rows += fetched;
        left -= fetched;
    }
};

static void gather_codes(const column_t& c, u8* out, const i64* rows, i64 count) {
    for (i64 i = 0; i < count; ++i) {
        const u8* const codes = c.base + rows[i] * c.stride;
        float* const values = (float*)(out + i * c.bytes);
        for (i64 e = 0; e < c.elements; ++e) values[e] = dequantize(codes[e]);
    }
}

static void gather_column(const column_t& c, u8* out, const i64* rows, i64 count) {
    if (c.codec == QUANTIZED) return gather_codes(c, out, rows, count);
    const i64 bytes = c.bytes, stride = c.stride;  // which the copies cannot change
    const u8* const base = c.base;
    copy_rows(
        count, bytes, [=](i64 i) { return out + i * bytes; },
        [=](i64 i) { return base + rows[i] * stride; });
}

// Lanes [first, first + count).
static void gather_lanes(const columns_t& columns, const target_t& target, i64 first, i64 count) {
    for (i64 i = 0; i < columns.count; ++i) {
        const column_t& c = columns.at[i];
        gather_column(c, target.at[i] + first * c.bytes, target.indices + first, count);
    }
}

// Rows that are copied together, and those whose lines are on their way meanwhile: more at a time are
// asked for in vain.
const i64 GATHERED_TOGETHER = 8, FETCHED_AHEAD = 24;

// The rows whose indices the target has.
static void gather(const columns_t& columns, const storage_t& storage, const target_t& target) {
    rows_ahead_t ahead = {storage, target.indices, target.lanes};
    ahead.fetch(FETCHED_AHEAD);
    for (i64 first = 0; first < target.lanes; first += GATHERED_TOGETHER) {
        ahead.fetch(GATHERED_TOGETHER);
        gather_lanes(columns, target, first, min_of(GATHERED_TOGETHER, target.lanes - first));
    }
}

// ---- store

// Whether every value of a quantised column can be stored.
static bool all_quantizable(const column_t& c, const u8* rows, i64 count) {
    const float* const values = (const float*)rows;
    for (i64 i = 0; i < count * c.elements; ++i)
        if (!is_quantizable(values[i])) return false;
    return true;
}

static inline bool fills_its_array(const column_t& c) {
    return c.codec == AS_IT_IS && c.stride == c.bytes;
}

// Rows of one column, side by side in `in`, go to rows `head` on.
static void store_column(const column_t& c, i64 head, const u8* in, i64 count) {
    u8* const out = c.base + head * c.stride;
    if (c.codec == QUANTIZED) {
        for (i64 i = 0; i < count; ++i)
            for (i64 e = 0; e < c.elements; ++e)
                out[i * c.stride + e] = quantize(((const float*)(in + i * c.bytes))[e]);
    } else if (c.codec == BOOLEAN) {
        for (i64 i = 0; i < count; ++i)
            for (i64 e = 0; e < c.elements; ++e) out[i * c.stride + e] = in[i * c.bytes + e] != 0;
    } else if (fills_its_array(c)) {
        memmove(out, in, (size_t)(count * c.bytes));
    } else {
        const i64 bytes = c.bytes, stride = c.stride;
        copy_rows(
            count, bytes, [=](i64 i) { return out + i * stride; },
            [=](i64 i) { return in + i * bytes; });
    }
}

// Rows that are stored together: the next ones' lines are on their way meanwhile, which takes a quarter
// off a large batch.
const i64 STORED_TOGETHER = 32;

__forceinline__ void prefetch_records(const storage_t& s, i64 first, i64 count) {
    for (i64 a = 0; a < s.count; ++a) {
        if (s.stride[a] > LONG_RUN) continue;
        const u8* const records = s.base[a] + first * s.stride[a];
        for (i64 at = 0; at < count * s.stride[a]; at += LINE) PREFETCH(records + at);
    }
}

// Rows of a batch go to the head, in order, and are counted. What the batch itself overwrites is not
// written at all.
static void store(control_t* control, const columns_t& columns, const storage_t& storage,
                  const u8* const* batch, i64 rows) {
    i64 done = rows > ring_rows(control) ? rows - ring_rows(control) : 0;
    while (done < rows) {
        const i64 head = ring_row(control, done);  // twice where the batch wraps
        const i64 piece = min_of(control->capacity - head, rows - done);
        for (i64 first = 0; first < piece; first += STORED_TOGETHER) {
            const i64 count = min_of(STORED_TOGETHER, piece - first), next = first + count;
            prefetch_records(storage, head + next, min_of(STORED_TOGETHER, piece - next));
            for (i64 i = 0; i < columns.count; ++i) {
                const column_t& c = columns.at[i];
                if (!fills_its_array(c))
                    store_column(c, head + first, batch[i] + (done + first) * c.bytes, count);
            }
        }
        for (i64 i = 0; i < columns.count; ++i) {
            const column_t& c = columns.at[i];
            if (fills_its_array(c)) store_column(c, head, batch[i] + done * c.bytes, piece);
        }
        done += piece;
    }
    control->total += rows;
}

}  // namespace host
