// quantize.cuh - float32 in [0, 1] as uint8 codes, exact for every k / 255.
//
// Host twin  cpreplay/inputs.py: _quantize; cpreplay/host_columns.py: Gather
#pragma once
#include "common.cuh"

// NaN counts as outside.
__device__ __forceinline__ bool is_quantizable(float x) { return x >= 0.0f && x <= 1.0f; }

// rint(x * 255) in float32, halves to even; clamped, NaN to 0.
__device__ __forceinline__ u8 quantize(float x) {
    const float clamped = x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
    return (u8)rintf(__fmul_rn(clamped, 255.0f));
}

// True division: multiplying by 1 / 255 would be off in the last bit for some codes.
__device__ __forceinline__ float dequantize(u8 code) { return __fdiv_rn((float)code, 255.0f); }
