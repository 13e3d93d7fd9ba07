// floats.cuh - float32 to float64 and back by their bits, subnormal ones too.
//
// CuPy compiles with -ftz=true: as floats, subnormal numbers would be read and written as 0, which the
// host does not do.
#pragma once
#include "common.cuh"

#define FLOAT_SIGN 0x80000000u

// A float32, given by its bits, as a float64; exact.
__device__ __forceinline__ double exact_double(u32 bits) {
    const u32 size = bits & ~FLOAT_SIGN;
    const double x = size < 0x00800000u ? (double)size * 0x1p-149 : (double)__uint_as_float(size);
    return bits & FLOAT_SIGN ? -x : x;
}

// The bits of a float64 rounded to float32, halves to even.
__device__ __forceinline__ u32 float_bits(double x) {
    const double size = fabs(x);
    const u32 bits = size < 0x1p-126 ? (u32)rint(size * 0x1p149)
                                     : __float_as_uint(__double2float_rn(size));
    return __double_as_longlong(x) < 0 ? bits | FLOAT_SIGN : bits;
}
