// copy.cuh - rows of bytes, in the widest words that fit.
#pragma once
#include "common.cuh"

// Widest word (1 to 16 bytes) that everything in `bits` is a multiple of.
__device__ __forceinline__ u32 word_bytes(u64 bits) {
    bits |= 16;
    return (u32)(bits & (~bits + 1));
}
