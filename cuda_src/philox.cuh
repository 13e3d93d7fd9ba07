// philox.cuh - Philox4x32-10, and random words numbered by (key, draw, lane).
//
// Key        the 64-bit key plus the lane, low word first
// Counter    draw number (low, high), block 0, purpose
// Host twin  cpreplay/philox.py
// Source     Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11
#pragma once
#include "common.cuh"

struct philox_t {
    u32 word[4];
};

// What a draw is for, so that two uses never share words.
#define PURPOSE_ROWS 0u     // a row, by the word itself
#define PURPOSE_TARGETS 1u  // a target in the sum tree, by the word as a real

__device__ __forceinline__ philox_t philox4x32_10(philox_t counter, u32 key0, u32 key1) {
    philox_t c = counter;
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const u32 high0 = __umulhi(0xD2511F53u, c.word[0]);
        const u32 low0 = 0xD2511F53u * c.word[0];
        const u32 high1 = __umulhi(0xCD9E8D57u, c.word[2]);
        const u32 low1 = 0xCD9E8D57u * c.word[2];
        c = {{high1 ^ c.word[1] ^ key0, low1, high0 ^ c.word[3] ^ key1, low0}};
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

// The first 64-bit word of a lane.
__device__ __forceinline__ u64 philox_word(u64 key, u64 draw, i64 lane, u32 purpose) {
    const u64 lane_key = key + (u64)lane;
    const philox_t counter = {{(u32)draw, (u32)(draw >> 32), 0u, purpose}};
    const philox_t out = philox4x32_10(counter, (u32)lane_key, (u32)(lane_key >> 32));
    return (u64)out.word[1] << 32 | out.word[0];
}

// A word as a real in [0, 1): its first 53 bits, so that none is rounded up to 1.
__device__ __forceinline__ double real_of(u64 word) { return (double)(word >> 11) * 0x1p-53; }
