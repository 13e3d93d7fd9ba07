// sumtree.cu - draws in proportion to priorities, and what changes priorities.
//
// Layout     tree_t (sumtree.cuh), control_t, update_t (priorities.cuh). A draw writes, for each lane,
//            indices i64, tokens u64 and raw f64, its weight before it is normalised; and for each
//            tile of lanes its largest raw weight. gather_rows finishes the weights.
// Invariant  leaves of rows [0, size) are at least SMALLEST_MASS, the others 0; winners are 0 between
//            updates; no ticket is above *updates
// Host twin  HostPriorities, HostSumTree
// Errors     lanes without a finite leaf, and rows that are not the ones drawn, are skipped and counted
// Source     Schaul et al. 2016, arXiv:1511.05952, section 3.3 and appendix B.2.1
#include "common.cuh"
#include "control.cuh"
#include "mask.cuh"
#include "philox.cuh"
#include "priorities.cuh"
#include "sumtree.cuh"

#define MAX_FEW 1024      // lanes of an update by one block
#define MAX_THREADS 1024  // of a block that does a whole add or update

struct draw_t {
    i64* indices;
    u64* tokens;
    double* raw;
    double* largest;  // one a tile
    i64 tile;         // lanes
};

// Draws one lane, and gives its raw weight.
__device__ __forceinline__ double draw_lane(const control_t* control, const tree_t& tree,
                                            i64 lanes, i64 lane, const draw_t& draw) {
    const double total = tree_total(tree);
    const u64 word = philox_word(control->key, control->draws, lane, PURPOSE_TARGETS);
    const double target = ((double)lane + real_of(word)) * (total / (double)lanes);
    const i64 row = find_row(tree, target);
    const double weight = weight_of(control, tree.leaves[row], total);
    draw.indices[lane] = row;
    draw.tokens[lane] = draw_token(control);
    draw.raw[lane] = weight;
    return weight;
}

// draw_by_priority: lane i draws in the i-th of `lanes` equal slices of the total. A block a tile, a
// thread a lane, since lanes are independent but for the largest weight.
extern "C" __global__ void draw_by_priority(const control_t* control, tree_t tree, i64 lanes,
                                            draw_t draw) {
    __shared__ u64 largest;  // as bits: positive numbers are ordered like their bits
    for (i64 first = blockIdx.x * draw.tile; first < lanes; first += gridDim.x * draw.tile) {
        const i64 end = first + draw.tile < lanes ? first + draw.tile : lanes;
        if (threadIdx.x == 0) largest = 0;
        __syncthreads();
        for (i64 lane = first + threadIdx.x; lane < end; lane += blockDim.x) {
            const double weight = draw_lane(control, tree, lanes, lane, draw);
            atomicMax(&largest, (u64)__double_as_longlong(weight));
        }
        __syncthreads();
        if (threadIdx.x == 0) draw.largest[first / draw.tile] = __longlong_as_double((i64)largest);
    }
}

// Recomputes one level above the leaves of the rows [first, first + count), which may wrap.
__device__ __forceinline__ void sum_ring(const tree_t& tree, i64 level, i64 first, i64 count,
                                         i64 capacity) {
    const int bits = FAN_OUT_BITS * (int)(level + 1);
    const i64 past_end = first + count - capacity;  // rows that wrapped to the beginning
    const i64 low = first >> bits;
    const i64 high = (past_end > 0 ? capacity - 1 : first + count - 1) >> bits;
    i64 wrapped = past_end > 0 ? ((past_end - 1) >> bits) + 1 : 0;
    if (wrapped > low) wrapped = low;  // the rest is in the other range
    for (i64 i = threadIdx.x; i <= high - low + wrapped; i += blockDim.x)
        sum_node(tree, level, i <= high - low ? low + i : i - (high - low + 1));
}

// enter_rows: gives the rows of the store before it their leaves, and counts them: move_cursor for a
// ring with priorities. mask as there. One block, with a barrier between levels.
extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    enter_rows(control_t* control, tree_t tree, i64 n, const u8* mask) {
    __shared__ u64 kept;
    if (blockIdx.x != 0) return;
    count_kept(mask, n, &kept);
    if (kept == 0) return;
    const i64 capacity = control->capacity;
    const i64 count = (i64)kept < capacity ? (i64)kept : capacity;
    const i64 first = ring_row(control, (i64)kept - count);
    const float leaf = leaf_of(control, control->max_priority);
    for (i64 i = threadIdx.x; i < count; i += blockDim.x)
        tree.leaves[first + i < capacity ? first + i : first + i - capacity] = leaf;
    for (i64 level = 0; level < tree.levels; ++level) {
        __syncthreads();
        sum_ring(tree, level, first, count, capacity);
    }
    if (threadIdx.x == 0) control->total += (i64)kept;
}

// Judges a lane, counts it where it is skipped, and puts it in for its row. Whether it did.
__device__ __forceinline__ bool claim_row(control_t* control, const tree_t& tree,
                                          const update_t& update, i64 lane) {
    const verdict_t verdict = judge(control, update, lane);
    if (verdict == WRITTEN) {
        atomicMax(&tree.winners[update.rows[lane]], (i32)lane + 1);
        return true;
    }
    i64* const counter =
        verdict == STALE ? &control->stale_updates : &control->invalid_priorities;
    atomicAdd((u64*)counter, (u64)1);
    return false;
}

// Writes the leaf of a lane that put itself in for its row, if no later one did. Whether it wrote.
__device__ __forceinline__ bool write_leaf(control_t* control, const tree_t& tree,
                                           const update_t& update, i64 lane) {
    const i64 row = update.rows[lane];
    // The winner takes its number back at once; the others see one that is not theirs, or 0.
    if (atomicCAS(&tree.winners[row], (i32)lane + 1, 0) != (i32)lane + 1) return false;
    const double priority = priority_of(control, update, lane);
    tree.leaves[row] = leaf_of(control, priority);
    atomicMax((u64*)&control->max_priority, (u64)__double_as_longlong(priority));
    return true;
}

// update_few: the whole update of up to MAX_FEW lanes, by one block with a barrier between steps.
// A lane goes up the tree as long as it is the first to come to a node.
extern "C" __global__ void __launch_bounds__(MAX_THREADS)
    update_few(control_t* control, tree_t tree, update_t update) {
    __shared__ bool active[MAX_FEW];  // each lane's is read and written by one thread alone
    if (blockIdx.x != 0) return;
    const u64 number = *tree.updates + 1;
    for (i64 lane = threadIdx.x; lane < update.lanes; lane += blockDim.x)
        active[lane] = claim_row(control, tree, update, lane);
    __syncthreads();
    for (i64 lane = threadIdx.x; lane < update.lanes; lane += blockDim.x)
        if (active[lane]) active[lane] = write_leaf(control, tree, update, lane);
    for (i64 level = 0; level < tree.levels; ++level) {
        __syncthreads();
        for (i64 lane = threadIdx.x; lane < update.lanes; lane += blockDim.x)
            if (active[lane]) active[lane] = sum_ancestor(tree, level, update.rows[lane], number);
    }
    if (threadIdx.x == 0) *tree.updates = number;
}

// claim_rows, write_leaves, then sum_ancestors for each level but the last, and end_update: the same
// for any number of lanes, with launches for barriers.
extern "C" __global__ void claim_rows(control_t* control, tree_t tree, update_t update) {
    for (i64 lane = grid_start(); lane < update.lanes; lane += grid_step())
        claim_row(control, tree, update, lane);
}

extern "C" __global__ void write_leaves(control_t* control, tree_t tree, update_t update) {
    for (i64 lane = grid_start(); lane < update.lanes; lane += grid_step())
        if (judge(control, update, lane) == WRITTEN) write_leaf(control, tree, update, lane);
}

extern "C" __global__ void sum_ancestors(const control_t* control, tree_t tree, update_t update,
                                         i64 level) {
    for (i64 lane = grid_start(); lane < update.lanes; lane += grid_step())
        if (judge(control, update, lane) == WRITTEN)
            sum_ancestor(tree, level, update.rows[lane], *tree.updates + 1);
}

// end_update: the root, and the count of updates. One thread.
extern "C" __global__ void end_update(tree_t tree) {
    if (!first_thread()) return;
    sum_node(tree, tree.levels - 1, 0);
    *tree.updates += 1;
}

// sum_level: all nodes of one level, from leaves that were set together. A thread a node.
extern "C" __global__ void sum_level(tree_t tree, i64 level) {
    for (i64 node = grid_start(); node < tree.nodes[level]; node += grid_step())
        sum_node(tree, level, node);
}
