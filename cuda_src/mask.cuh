// mask.cuh - how many rows of a batch a mask keeps.
//
// Layout     mask u8[n], any byte but 0 keeps its row; null keeps all
#pragma once
#include "common.cuh"

// Adds to `count` how many of mask[0 .. end) this block's threads see set.
__device__ __forceinline__ void count_mask(const u8* mask, i64 end, u64* count) {
    u64 mine = 0;
    for (i64 i = threadIdx.x; i < end; i += blockDim.x) mine += mask[i] != 0;
    if (mine) atomicAdd(count, mine);
}

// Sets `kept`, in shared memory, to the rows kept of n. Every thread of the block comes here.
__device__ __forceinline__ void count_kept(const u8* mask, i64 n, u64* kept) {
    if (threadIdx.x == 0) *kept = mask ? 0 : (u64)n;
    __syncthreads();
    if (mask) count_mask(mask, n, kept);
    __syncthreads();
}
