// common.cuh - types that every device source uses.
//
// Nothing but our own headers is included anywhere: NVRTC has no system headers.
#pragma once

typedef unsigned char u8;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
static_assert(sizeof(u8) == 1 && sizeof(i32) == 4 && sizeof(u32) == 4, "types");
static_assert(sizeof(i64) == 8 && sizeof(u64) == 8 && sizeof(void*) == 8, "types");

// The first number of this thread in a grid-stride loop, and its step.
__device__ __forceinline__ i64 grid_start() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }

__device__ __forceinline__ i64 grid_step() { return (i64)gridDim.x * blockDim.x; }

__device__ __forceinline__ bool first_thread() { return blockIdx.x == 0 && threadIdx.x == 0; }
