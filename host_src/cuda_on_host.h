// cuda_on_host.h - lets a C++ compiler take the device functions of cuda_src for plain functions.
//
// A launch is one block of one thread, so a grid-stride loop is a loop, a barrier is nothing, and an
// atomic operation is the operation.
#pragma once
#include <cmath>
#include <cstring>

#define __device__
#define __global__
#define __shared__
#define __launch_bounds__(...)
#if defined(_MSC_VER)
#define __forceinline__ static __forceinline
#else
#define __forceinline__ static inline __attribute__((always_inline))
#endif

struct cuda_index_t {
    unsigned x, y, z;
};
static const cuda_index_t blockIdx = {0, 0, 0}, threadIdx = {0, 0, 0};
static const cuda_index_t blockDim = {1, 1, 1}, gridDim = {1, 1, 1};

struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) double2 {
    double x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

static inline void __syncthreads() {}

static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((unsigned long long)a * b >> 32);
}

static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
#if defined(__SIZEOF_INT128__)
    return (unsigned long long)((unsigned __int128)a * b >> 64);
#else
    const unsigned long long low = 0xFFFFFFFFu, a0 = a & low, a1 = a >> 32, b0 = b & low, b1 = b >> 32;
    const unsigned long long middle = a1 * b0 + (a0 * b0 >> 32);
    return a1 * b1 + (middle >> 32) + ((middle & low) + a0 * b1 >> 32);
#endif
}

// Compiled without contraction, so these round once as on the device.
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __double2float_rn(double a) { return (float)a; }

template <typename to_t, typename from_t>
static inline to_t same_bits(from_t from) {
    static_assert(sizeof(to_t) == sizeof(from_t), "bits");
    to_t to;
    memcpy(&to, &from, sizeof to);
    return to;
}

static inline unsigned __float_as_uint(float a) { return same_bits<unsigned>(a); }
static inline float __uint_as_float(unsigned a) { return same_bits<float>(a); }
static inline long long __double_as_longlong(double a) { return same_bits<long long>(a); }
static inline double __longlong_as_double(long long a) { return same_bits<double>(a); }

template <typename T>
static inline T atomicExch(T* at, T value) {
    const T before = *at;
    *at = value;
    return before;
}

template <typename T>
static inline T atomicAdd(T* at, T value) {
    const T before = *at;
    *at = before + value;
    return before;
}

template <typename T>
static inline T atomicMax(T* at, T value) {
    const T before = *at;
    if (value > before) *at = value;
    return before;
}

template <typename T>
static inline T atomicCAS(T* at, T expected, T value) {
    const T before = *at;
    if (before == expected) *at = value;
    return before;
}
