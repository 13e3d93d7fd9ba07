// rows.cu - storing transitions in the ring, and gathering minibatches from it.
//
// Layout     Row r of column c begins at columns.at[c].base + r * stride. The base of a packed column
//            is the record array's address plus the column's offset in the record. Batches, in and
//            out, are contiguous: row i of column c begins at batch.at[c] + i * bytes.
// Invariant  total counts every row that was ever stored, and moves only in move_cursor, or with
//            priorities in enter_rows (sumtree.cu), which is launched after store_rows: both see
//            the ring as it was when the add was queued.
// Host twin  HostOps.store; cpreplay/host_columns.py: StoredColumn.write, Gather
// Errors     Values outside [0, 1] for a quantised column are clamped, and their rows counted.
#include "common.cuh"
#include "control.cuh"
#include "copy.cuh"
#include "mask.cuh"
#include "priorities.cuh"
#include "quantize.cuh"

#define MAX_COLUMNS 32
#define MAX_TILE 32

// How a value is stored.
enum codec_t {
    AS_IT_IS = 0,
    QUANTIZED = 1,  // float32 in a batch, uint8 codes in the ring
    BOOLEAN = 2,    // any byte but 0 is stored as 1
};

struct column_t {
    u8* base;
    i64 stride;     // bytes from one stored row to the next
    i64 elements;   // of one row
    i64 bytes;      // of one row in a batch
    i64 codec;
};

struct columns_t {
    i64 count;
    column_t at[MAX_COLUMNS];
};

struct batch_t {
    u8* at[MAX_COLUMNS];
};

// The weights of a batch; all null without priorities.
struct weights_t {
    const double* raw;
    const double* largest;  // the largest raw weight of each tile of lanes
    i64 tiles;
    float* weights;
};

// A thread's share of a copy: rows [row0, row0 + rows) of a batch, item `start` of every `step`.
struct share_t {
    i64 row0, rows, start, step;
};

// slots[i] is the stored row of batch row row0 + i, or negative where there is none.
template <typename word_t, bool to_ring>
__device__ __forceinline__ void copy_words(const column_t& c, u8* batch, const i64* slots,
                                           share_t share) {
    const i64 words = c.bytes / (i64)sizeof(word_t);
    for (i64 t = share.start; t < share.rows * words; t += share.step) {
        const i64 i = t / words, w = t - i * words;
        if (slots[i] < 0) continue;
        word_t* const in_ring = (word_t*)(c.base + slots[i] * c.stride) + w;
        word_t* const in_batch = (word_t*)(batch + (share.row0 + i) * c.bytes) + w;
        if (to_ring)
            *in_ring = *in_batch;
        else
            *in_batch = *in_ring;
    }
}

// Copies a column in the widest words that fit both sides.
template <bool to_ring>
__device__ __forceinline__ void copy_column(const column_t& c, u8* batch, const i64* slots,
                                            share_t share) {
    switch (word_bytes((u64)c.base | (u64)c.stride | (u64)c.bytes | (u64)batch)) {
        case 16: copy_words<uint4, to_ring>(c, batch, slots, share); break;
        case 8: copy_words<u64, to_ring>(c, batch, slots, share); break;
        case 4: copy_words<u32, to_ring>(c, batch, slots, share); break;
        case 2: copy_words<unsigned short, to_ring>(c, batch, slots, share); break;
        default: copy_words<u8, to_ring>(c, batch, slots, share);
    }
}

// The rows of a batch that one block stores.
struct tile_t {
    i64 slot[MAX_TILE];  // where each goes; -1: masked out, or overwritten by this same batch
    u64 before;          // rows kept by the mask before this tile,
    u64 kept;            // and in the whole batch
};

// Fills a tile. Every thread of the block comes here; the caller has the barrier after it.
__device__ __forceinline__ void place_tile(tile_t* tile, const control_t* control, const u8* mask,
                                           i64 n, i64 row0, i64 rows) {
    const i64 ring = ring_rows(control);
    if (mask) {
        if (threadIdx.x == 0) tile->before = tile->kept = 0;
        __syncthreads();
        count_mask(mask, row0, &tile->before);
        if (n > ring) count_mask(mask, n, &tile->kept);
        __syncthreads();
    }
    const i64 kept = mask && n > ring ? (i64)tile->kept : n;
    for (i64 i = threadIdx.x; i < rows; i += blockDim.x) {
        i64 rank = row0 + i;
        if (mask) {
            rank = (i64)tile->before;
            for (i64 j = 0; j < i; ++j) rank += mask[row0 + j] != 0;
        }
        const bool stored = (!mask || mask[row0 + i]) && kept - rank <= ring;
        tile->slot[i] = stored ? ring_row(control, rank) : -1;
    }
}

// Quantises rows of one column. last_invalid[slot] is 1 + the total before the last launch that had to
// clamp a value there, so that a row counts once however many of its values are outside.
__device__ __forceinline__ void store_codes(const column_t& c, const u8* batch, const i64* slots,
                                            share_t share, u64* last_invalid, control_t* control) {
    for (i64 t = share.start; t < share.rows * c.elements; t += share.step) {
        const i64 i = t / c.elements, e = t - i * c.elements;
        if (slots[i] < 0) continue;
        const float x = ((const float*)(batch + (share.row0 + i) * c.bytes))[e];
        c.base[slots[i] * c.stride + e] = quantize(x);
        if (is_quantizable(x)) continue;
        const u64 launch = (u64)control->total + 1;
        if (atomicExch(&last_invalid[slots[i]], launch) != launch)
            atomicAdd((u64*)&control->invalid_rows, (u64)1);
    }
}

__device__ __forceinline__ void store_booleans(const column_t& c, const u8* batch,
                                               const i64* slots, share_t share) {
    for (i64 t = share.start; t < share.rows * c.elements; t += share.step) {
        const i64 i = t / c.elements, e = t - i * c.elements;
        if (slots[i] < 0) continue;
        c.base[slots[i] * c.stride + e] = batch[(share.row0 + i) * c.elements + e] != 0;
    }
}

__device__ __forceinline__ void gather_codes(const column_t& c, u8* batch, const i64* slots,
                                             share_t share) {
    for (i64 t = share.start; t < share.rows * c.elements; t += share.step) {
        const i64 i = t / c.elements, e = t - i * c.elements;
        ((float*)(batch + i * c.bytes))[e] = dequantize(c.base[slots[i] * c.stride + e]);
    }
}

// store_rows: rows i of batch with mask[i] (u8[n]; null: all of them) go to the head, in order.
// blockIdx.x walks tiles of tile_rows <= MAX_TILE rows, blockIdx.y divides a tile's columns: one
// launch for any number of rows and columns. Each block counts the mask before its tile by itself:
// that saves a launch, a scratch array and a wait, and suits masks of up to some ten thousand rows,
// for together the blocks read n * n / tile_rows bytes of mask.
extern "C" __global__ void store_rows(control_t* control, columns_t columns, batch_t batch, i64 n,
                                      const u8* mask, i64 tile_rows, u64* last_invalid) {
    __shared__ tile_t tile;
    for (i64 row0 = blockIdx.x * tile_rows; row0 < n; row0 += gridDim.x * tile_rows) {
        const i64 rows = n - row0 < tile_rows ? n - row0 : tile_rows;
        place_tile(&tile, control, mask, n, row0, rows);
        __syncthreads();
        const share_t share = {row0, rows, (i64)blockIdx.y * blockDim.x + threadIdx.x,
                               (i64)gridDim.y * blockDim.x};
        for (i64 c = 0; c < columns.count; ++c) {
            const column_t& column = columns.at[c];
            if (column.codec == QUANTIZED)
                store_codes(column, batch.at[c], tile.slot, share, last_invalid, control);
            else if (column.codec == BOOLEAN)
                store_booleans(column, batch.at[c], tile.slot, share);
            else
                copy_column<true>(column, batch.at[c], tile.slot, share);
        }
        __syncthreads();
    }
}

// move_cursor: counts the rows of the store before it; mask as there. One block, one thread where
// there is no mask.
extern "C" __global__ void move_cursor(control_t* control, i64 n, const u8* mask) {
    __shared__ u64 kept;
    if (blockIdx.x != 0) return;
    count_kept(mask, n, &kept);
    if (threadIdx.x == 0) control->total += (i64)kept;
}

// Raw weights of a draw by priority as weights f32[n]; of a uniform one (raw is null) they are 1.
__device__ __forceinline__ void finish_weights(const weights_t& w, i64 n) {
    for (i64 lane = grid_start(); lane < n; lane += grid_step()) {
        double largest = 0.0;
        for (i64 i = 0; w.raw && i < w.tiles; ++i)
            if (w.largest[i] > largest) largest = w.largest[i];
        w.weights[lane] = w.raw ? normalized(w.raw[lane], largest) : 1.0f;
    }
}

// gather_rows: stored rows indices[i] (i64[n]) become rows i of batch. It ends the draw as well,
// since this launch is the first that runs after every lane has been drawn; which is also why the
// weights are finished here.
extern "C" __global__ void gather_rows(control_t* control, columns_t columns, batch_t batch, i64 n,
                                       const i64* indices, i64 by_policy, weights_t weights) {
    if (weights.weights) finish_weights(weights, n);
    const share_t share = {0, n, grid_start(), grid_step()};
    for (i64 c = 0; c < columns.count; ++c) {
        const column_t& column = columns.at[c];
        if (column.codec == QUANTIZED)
            gather_codes(column, batch.at[c], indices, share);
        else
            copy_column<false>(column, batch.at[c], indices, share);
    }
    if (first_thread()) end_draw(control, by_policy);
}
