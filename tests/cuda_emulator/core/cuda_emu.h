// cuda_emu.h - lets g++ compile CUDA C++ kernels as plain C++; force-included before the source.
//
// It includes no header but kinds.h, so that a kernel finds what NVRTC gives it, and no more.  The
// scheduler, the collectives and the checks live in emu_core.cpp.
#pragma once
#include "kinds.h"

#define CPREPLAY_EMULATED 1
#define __CUDA_ARCH__ 900
#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))

typedef __SIZE_TYPE__ size_t;

// ---- vector types

#define EMU_VECTOR(T, N)                                                            \
    struct __attribute__((aligned(2 * sizeof(T)))) N##2 { T x, y; };                \
    struct N##3 { T x, y, z; };                                                     \
    struct __attribute__((aligned(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)))) N##4 { \
        T x, y, z, w;                                                               \
    };                                                                              \
    static inline N##2 make_##N##2(T x, T y) { return {x, y}; }                     \
    static inline N##3 make_##N##3(T x, T y, T z) { return {x, y, z}; }             \
    static inline N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMU_VECTOR(signed char, char)
EMU_VECTOR(unsigned char, uchar)
EMU_VECTOR(short, short)
EMU_VECTOR(unsigned short, ushort)
EMU_VECTOR(int, int)
EMU_VECTOR(unsigned int, uint)
EMU_VECTOR(long long, longlong)
EMU_VECTOR(unsigned long long, ulonglong)
EMU_VECTOR(float, float)
EMU_VECTOR(double, double)
typedef uint3 dim3;

// ---- what emu_core.cpp provides; `file` and `site` say where the call stands

struct EmuThread {
    uint3 thread, block;
};

extern "C" {
extern EmuThread* emu_current;
extern uint3 emu_block_dim, emu_grid_dim;
void emu_syncthreads(const char* file, int site);
int emu_syncthreads_reduce(const char* file, int site, int kind, int value);
void emu_syncwarp(const char* file, int site, unsigned mask);
const unsigned long* emu_collective(const char* file, int site, int kind, unsigned mask,
                                    unsigned long value, unsigned* present);
int emu_lane();
unsigned emu_activemask();
void emu_atomic(const void* p, unsigned size, int reads);
void emu_fence();
void emu_fail(const char* what, const char* file, int site) __attribute__((noreturn));
void* emu_shared(const void* site, size_t bytes, size_t align);
void* emu_dynamic_shared();
void emu_memcpy(void* to, const void* from, size_t n);
void emu_memset(void* to, int byte, size_t n);
int printf(const char* format, ...);
}

// The line in the low 16 bits, and a counter, so that two barriers on one line differ.
#define EMU_SITE ((__COUNTER__ << 16) | __LINE__)

// Not instrumented, so that the emulator's own work is not taken for the kernel's.
#define EMU_OWN __attribute__((no_sanitize("thread"), no_sanitize_coverage))

#ifdef __SANITIZE_THREAD__
EMU_OWN __attribute__((noinline)) static uint3 emu_thread_index() { return emu_current->thread; }

EMU_OWN __attribute__((noinline)) static uint3 emu_block_index() { return emu_current->block; }

EMU_OWN __attribute__((noinline)) static uint3 emu_block_size() { return emu_block_dim; }

EMU_OWN __attribute__((noinline)) static uint3 emu_grid_size() { return emu_grid_dim; }

#define threadIdx (emu_thread_index())
#define blockIdx (emu_block_index())
#define blockDim (emu_block_size())
#define gridDim (emu_grid_size())
#else
#define threadIdx (emu_current->thread)
#define blockIdx (emu_current->block)
#define blockDim (emu_block_dim)
#define gridDim (emu_grid_dim)
#endif
#define warpSize 32

// ---- shared memory: emu.py turns "__shared__ T name[..];" into EMU_SHARED(T, name, [..]); and
// "extern __shared__ T name[];" into EMU_DYNAMIC_SHARED(T, name);
// The lambda's static gives every declaration, and every instance of a template, its own site.
// clang-format off
#define EMU_SHARED(T, name, ...)                                                        \
    T (&name) __VA_ARGS__ = *reinterpret_cast<T (*) __VA_ARGS__>(emu_shared(            \
        []() -> const void* { static char site; return &site; }(),                      \
        sizeof(T __VA_ARGS__), alignof(T)))
// clang-format on
#define EMU_DYNAMIC_SHARED(T, name) T* name = (T*)emu_dynamic_shared()

// ---- barriers and fences

#define __syncthreads() emu_syncthreads(__FILE__, EMU_SITE)
#define __syncthreads_count(p) emu_syncthreads_reduce(__FILE__, EMU_SITE, EMU_KIND_COUNT, !!(p))
#define __syncthreads_and(p) emu_syncthreads_reduce(__FILE__, EMU_SITE, EMU_KIND_AND, !!(p))
#define __syncthreads_or(p) emu_syncthreads_reduce(__FILE__, EMU_SITE, EMU_KIND_OR, !!(p))
#define EMU_SYNCWARP(mask, ...) emu_syncwarp(__FILE__, EMU_SITE, mask)
#define __syncwarp(...) EMU_SYNCWARP(__VA_ARGS__ __VA_OPT__(, ) 0xffffffffu)
#define __threadfence() emu_fence()
#define __threadfence_block() emu_fence()
#define __activemask() emu_activemask()
#define __trap() emu_fail("__trap", __FILE__, __LINE__)
#define assert(c) ((c) ? (void)0 : emu_fail("assert(" #c ")", __FILE__, __LINE__))
#define __ldg(p) (*(p))
#define memcpy emu_memcpy
#define memset emu_memset

// ---- small tools

namespace emu {
template <class T>
struct same {
    typedef T type;
};

template <class T>
EMU_OWN inline unsigned long to_bits(T v) {
    static_assert(sizeof(T) <= 8, "a shuffle takes at most 8 bytes");
    unsigned long bits = 0;
    __builtin_memcpy(&bits, &v, sizeof v);
    return bits;
}

template <class To, class From>
EMU_OWN inline To from_bits(From bits) {
    To v;
    __builtin_memcpy(&v, &bits, sizeof v);
    return v;
}

// ---- warp collectives

template <class T>
EMU_OWN inline T shuffle(const char* file, int site, int kind, unsigned mask, T v, int arg,
                         int width = 32) {
    unsigned present;
    const unsigned long* values = emu_collective(file, site, kind, mask, to_bits(v), &present);
    int lane = emu_lane(), base = lane & ~(width - 1), from = lane;
    if (kind == EMU_KIND_SHFL)
        from = base + (arg & (width - 1));
    else if (kind == EMU_KIND_SHFL_UP)
        from = lane - arg >= base ? lane - arg : lane;
    else if (kind == EMU_KIND_SHFL_DOWN)
        from = lane + arg < base + width ? lane + arg : lane;
    else
        from = (lane ^ arg) < base + width ? lane ^ arg : lane;
    if (!(present >> from & 1))
        emu_fail("shuffle reads a lane that does not take part", file, site);
    return from_bits<T>(values[from]);
}

EMU_OWN inline unsigned ballot(const char* file, int site, int kind, unsigned mask, int p) {
    unsigned present, lanes = 0;
    const unsigned long* values = emu_collective(file, site, kind, mask, !!p, &present);
    for (int i = 0; i < 32; ++i)
        if ((present >> i & 1) && values[i]) lanes |= 1u << i;
    return lanes & mask;
}

template <class T, class F>
EMU_OWN inline T reduce(const char* file, int site, int kind, unsigned mask, T v, F op) {
    unsigned present;
    const unsigned long* values = emu_collective(file, site, kind, mask, to_bits(v), &present);
    bool first = true;
    T result = v;
    for (int i = 0; i < 32; ++i)
        if (present >> i & 1) {
            T x = from_bits<T>(values[i]);
            result = first ? x : op(result, x);
            first = false;
        }
    return result;
}

template <class T>
EMU_OWN inline unsigned match_any(const char* file, int site, unsigned mask, T v) {
    unsigned present, lanes = 0;
    const unsigned long* values =
        emu_collective(file, site, EMU_KIND_MATCH_ANY, mask, to_bits(v), &present);
    for (int i = 0; i < 32; ++i)
        if ((present >> i & 1) && values[i] == to_bits(v)) lanes |= 1u << i;
    return lanes;
}
}  // namespace emu

#define __shfl_sync(...) emu::shuffle(__FILE__, EMU_SITE, EMU_KIND_SHFL, __VA_ARGS__)
#define __shfl_up_sync(...) emu::shuffle(__FILE__, EMU_SITE, EMU_KIND_SHFL_UP, __VA_ARGS__)
#define __shfl_down_sync(...) emu::shuffle(__FILE__, EMU_SITE, EMU_KIND_SHFL_DOWN, __VA_ARGS__)
#define __shfl_xor_sync(...) emu::shuffle(__FILE__, EMU_SITE, EMU_KIND_SHFL_XOR, __VA_ARGS__)
#define __ballot_sync(m, p) emu::ballot(__FILE__, EMU_SITE, EMU_KIND_BALLOT, m, (p) ? 1 : 0)
#define __any_sync(m, p) (emu::ballot(__FILE__, EMU_SITE, EMU_KIND_ANY, m, (p) ? 1 : 0) != 0)
#define __all_sync(m, p) (emu::ballot(__FILE__, EMU_SITE, EMU_KIND_ALL, m, (p) ? 0 : 1) == 0)
#define __reduce_add_sync(m, v) \
    emu::reduce(__FILE__, EMU_SITE, EMU_KIND_REDUCE_ADD, m, v, [](auto a, auto b) { return a + b; })
#define __reduce_max_sync(m, v)                                \
    emu::reduce(__FILE__, EMU_SITE, EMU_KIND_REDUCE_MAX, m, v, \
                [](auto a, auto b) { return a < b ? b : a; })
#define __reduce_min_sync(m, v)                                \
    emu::reduce(__FILE__, EMU_SITE, EMU_KIND_REDUCE_MIN, m, v, \
                [](auto a, auto b) { return b < a ? b : a; })
#define __match_any_sync(m, v) emu::match_any(__FILE__, EMU_SITE, m, v)

// ---- atomics: the types that CUDA has, and no other.  (unsigned long, which is uint64_t on Linux,
// is none of them.)

#define EMU_ATOMIC(NAME, T, READS, NEW)                   \
    EMU_OWN static inline T atomic##NAME(T* p, T value) { \
        emu_atomic(p, sizeof(T), READS);                  \
        T old = *p;                                       \
        *p = (NEW);                                       \
        return old;                                       \
    }
#define EMU_ATOMIC_CAS(T)                                          \
    EMU_OWN static inline T atomicCAS(T* p, T expected, T value) { \
        emu_atomic(p, sizeof(T), 1);                               \
        T old = *p;                                                \
        if (old == expected) *p = value;                           \
        return old;                                                \
    }
// sums of signed integers wrap around
EMU_ATOMIC(Add, int, 1, (int)((unsigned)old + (unsigned)value))
EMU_ATOMIC(Add, unsigned int, 1, old + value)
EMU_ATOMIC(Add, unsigned long long, 1, old + value)
EMU_ATOMIC(Add, float, 1, old + value)
EMU_ATOMIC(Add, double, 1, old + value)
EMU_ATOMIC(Sub, int, 1, (int)((unsigned)old - (unsigned)value))
EMU_ATOMIC(Sub, unsigned int, 1, old - value)
EMU_ATOMIC(Exch, int, 0, value)
EMU_ATOMIC(Exch, unsigned int, 0, value)
EMU_ATOMIC(Exch, unsigned long long, 0, value)
EMU_ATOMIC(Exch, float, 0, value)
EMU_ATOMIC(Max, int, 1, old < value ? value : old)
EMU_ATOMIC(Max, unsigned int, 1, old < value ? value : old)
EMU_ATOMIC(Max, long long, 1, old < value ? value : old)
EMU_ATOMIC(Max, unsigned long long, 1, old < value ? value : old)
EMU_ATOMIC(Min, int, 1, value < old ? value : old)
EMU_ATOMIC(Min, unsigned int, 1, value < old ? value : old)
EMU_ATOMIC(Min, long long, 1, value < old ? value : old)
EMU_ATOMIC(Min, unsigned long long, 1, value < old ? value : old)
EMU_ATOMIC(And, int, 1, (old & value))
EMU_ATOMIC(And, unsigned int, 1, (old & value))
EMU_ATOMIC(And, unsigned long long, 1, (old & value))
EMU_ATOMIC(Or, int, 1, (old | value))
EMU_ATOMIC(Or, unsigned int, 1, (old | value))
EMU_ATOMIC(Or, unsigned long long, 1, (old | value))
EMU_ATOMIC(Xor, int, 1, (old ^ value))
EMU_ATOMIC(Xor, unsigned int, 1, (old ^ value))
EMU_ATOMIC(Xor, unsigned long long, 1, (old ^ value))
EMU_ATOMIC(Inc, unsigned int, 1, old >= value ? 0 : old + 1)
EMU_ATOMIC(Dec, unsigned int, 1, old == 0 || old > value ? value : old - 1)
EMU_ATOMIC_CAS(int)
EMU_ATOMIC_CAS(unsigned int)
EMU_ATOMIC_CAS(unsigned long long)
EMU_ATOMIC_CAS(unsigned short)

// ---- integer intrinsics

static inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }

static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((unsigned long long)a * b >> 32);
}

static inline long long __mul64hi(long long a, long long b) {
    return (long long)((__int128)a * b >> 64);
}

static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}

static inline int __popc(unsigned v) { return __builtin_popcount(v); }

static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }

static inline int __ffs(int v) { return __builtin_ffs(v); }

static inline int __ffsll(long long v) { return __builtin_ffsll(v); }

static inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }

static inline int __clzll(long long v) { return v ? __builtin_clzll((unsigned long long)v) : 64; }

// ---- reinterpretation

static inline float __int_as_float(int v) { return emu::from_bits<float>(v); }

static inline float __uint_as_float(unsigned v) { return emu::from_bits<float>(v); }

static inline int __float_as_int(float v) { return emu::from_bits<int>(v); }

static inline unsigned __float_as_uint(float v) { return emu::from_bits<unsigned>(v); }

static inline double __longlong_as_double(long long v) { return emu::from_bits<double>(v); }

static inline long long __double_as_longlong(double v) { return emu::from_bits<long long>(v); }

// ---- arithmetic with a stated rounding (the compiler may not contract it)

static inline float __fadd_rn(float a, float b) { return a + b; }

static inline float __fsub_rn(float a, float b) { return a - b; }

static inline float __fmul_rn(float a, float b) { return a * b; }

static inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }

static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

static inline double __dadd_rn(double a, double b) { return a + b; }

static inline double __dsub_rn(double a, double b) { return a - b; }

static inline double __dmul_rn(double a, double b) { return a * b; }

static inline double __dsqrt_rn(double a) { return __builtin_sqrt(a); }

static inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }

// division by zero is defined on the device: IEEE's infinities and NaN
__attribute__((no_sanitize("float-divide-by-zero"))) static inline float __fdiv_rn(float a,
                                                                                   float b) {
    return a / b;
}

__attribute__((no_sanitize("float-divide-by-zero"))) static inline double __ddiv_rn(double a,
                                                                                    double b) {
    return a / b;
}

// ---- conversions.  To an integer they saturate.  NaN gives 0 where neither side has 64 bits, and
// else the integer whose top bit alone is set (PTX, cvt).

namespace emu {
template <class To, class From>
EMU_OWN inline To saturate(From v) {
    const bool is_signed = (To)-1 < 0;
    const int bits = 8 * sizeof(To);
    const To top_bit = (To)1 << (bits - 1);
    const To most = is_signed ? (To)~top_bit : (To)-1;
    const To least = is_signed ? top_bit : (To)0;
    const From limit = (From)2 * (From)(1ull << (bits - 2)) * (is_signed ? 1 : 2);
    if (v != v) return bits == 64 || sizeof(From) == 8 ? top_bit : (To)0;
    if (v >= limit) return most;
    if (is_signed ? v < -limit : v <= 0) return least;
    return (To)v;
}
}  // namespace emu

#define EMU_TO_INTEGER(NAME, FROM, TO, SUFFIX)                \
    static inline TO __##NAME##_rn(FROM v) {                  \
        return emu::saturate<TO>(__builtin_rint##SUFFIX(v));  \
    }                                                         \
    static inline TO __##NAME##_rz(FROM v) {                  \
        return emu::saturate<TO>(__builtin_trunc##SUFFIX(v)); \
    }                                                         \
    static inline TO __##NAME##_rd(FROM v) {                  \
        return emu::saturate<TO>(__builtin_floor##SUFFIX(v)); \
    }                                                         \
    static inline TO __##NAME##_ru(FROM v) { return emu::saturate<TO>(__builtin_ceil##SUFFIX(v)); }
EMU_TO_INTEGER(float2int, float, int, f)
EMU_TO_INTEGER(float2uint, float, unsigned int, f)
EMU_TO_INTEGER(float2ll, float, long long, f)
EMU_TO_INTEGER(float2ull, float, unsigned long long, f)
EMU_TO_INTEGER(double2int, double, int, )
EMU_TO_INTEGER(double2uint, double, unsigned int, )
EMU_TO_INTEGER(double2ll, double, long long, )
EMU_TO_INTEGER(double2ull, double, unsigned long long, )

static inline float __int2float_rn(int v) { return (float)v; }

static inline float __uint2float_rn(unsigned v) { return (float)v; }

static inline float __ll2float_rn(long long v) { return (float)v; }

static inline float __ull2float_rn(unsigned long long v) { return (float)v; }

static inline double __int2double_rn(int v) { return (double)v; }

static inline double __uint2double_rn(unsigned v) { return (double)v; }

static inline double __ll2double_rn(long long v) { return (double)v; }

static inline double __ull2double_rn(unsigned long long v) { return (double)v; }

__attribute__((no_sanitize("float-cast-overflow"))) static inline float __double2float_rn(
    double v) {
    return (float)v;
}

// ---- mathematical functions: for double, for float, and with CUDA's name for float

#define EMU_MATH1(NAME)                                                  \
    static inline double NAME(double x) { return __builtin_##NAME(x); }  \
    static inline float NAME(float x) { return __builtin_##NAME##f(x); } \
    static inline float NAME##f(float x) { return __builtin_##NAME##f(x); }
#define EMU_MATH2(NAME)                                                              \
    static inline double NAME(double x, double y) { return __builtin_##NAME(x, y); } \
    static inline float NAME(float x, float y) { return __builtin_##NAME##f(x, y); } \
    static inline float NAME##f(float x, float y) { return __builtin_##NAME##f(x, y); }
EMU_MATH1(fabs)
EMU_MATH1(sqrt)
EMU_MATH1(floor)
EMU_MATH1(ceil)
EMU_MATH1(trunc)
EMU_MATH1(rint)
EMU_MATH1(round)
EMU_MATH1(exp)
EMU_MATH1(exp2)
EMU_MATH1(expm1)
EMU_MATH1(log)
EMU_MATH1(log2)
EMU_MATH1(log10)
EMU_MATH1(log1p)
EMU_MATH2(pow)
EMU_MATH2(fmin)
EMU_MATH2(fmax)
EMU_MATH2(fmod)
EMU_MATH2(copysign)

static inline double pow(double x, int y) { return __builtin_pow(x, y); }

static inline float pow(float x, int y) { return __builtin_powf(x, y); }

static inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }

static inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }

static inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }

static inline bool isnan(double x) { return __builtin_isnan(x); }

static inline bool isnan(float x) { return __builtin_isnan(x); }

static inline bool isinf(double x) { return __builtin_isinf(x); }

static inline bool isinf(float x) { return __builtin_isinf(x); }

static inline bool isfinite(double x) { return __builtin_isfinite(x); }

static inline bool isfinite(float x) { return __builtin_isfinite(x); }

static inline int abs(int x) { return x < 0 ? -x : x; }

static inline long long abs(long long x) { return x < 0 ? -x : x; }

static inline float abs(float x) { return __builtin_fabsf(x); }

static inline double abs(double x) { return __builtin_fabs(x); }

#define EMU_MIN_MAX(T)                                      \
    static inline T min(T a, T b) { return b < a ? b : a; } \
    static inline T max(T a, T b) { return a < b ? b : a; }
EMU_MIN_MAX(int)
EMU_MIN_MAX(unsigned int)
EMU_MIN_MAX(long)
EMU_MIN_MAX(unsigned long)
EMU_MIN_MAX(long long)
EMU_MIN_MAX(unsigned long long)

static inline float min(float a, float b) { return __builtin_fminf(a, b); }

static inline float max(float a, float b) { return __builtin_fmaxf(a, b); }

static inline double min(double a, double b) { return __builtin_fmin(a, b); }

static inline double max(double a, double b) { return __builtin_fmax(a, b); }

// mixed signs, as in CUDA: the unsigned type wins
static inline unsigned min(int a, unsigned b) { return min((unsigned)a, b); }

static inline unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }

static inline unsigned max(int a, unsigned b) { return max((unsigned)a, b); }

static inline unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }

// ---- how emu.py calls kernels

// One parameter: NumPy's code of a scalar, "V" for a struct; of a pointer, what it points to.
struct EmuParameter {
    const char* code;
    unsigned size, is_pointer, points_to_const;
};

namespace emu {
template <class T>
struct code {
    static constexpr const char* value = "V";
};

#define EMU_CODE(T, C)                          \
    template <>                                 \
    struct code<T> {                            \
        static constexpr const char* value = C; \
    };
EMU_CODE(bool, "b1")
EMU_CODE(char, "i1")
EMU_CODE(signed char, "i1")
EMU_CODE(unsigned char, "u1")
EMU_CODE(short, "i2")
EMU_CODE(unsigned short, "u2")
EMU_CODE(int, "i4")
EMU_CODE(unsigned int, "u4")
EMU_CODE(long, "i8")
EMU_CODE(unsigned long, "u8")
EMU_CODE(long long, "i8")
EMU_CODE(unsigned long long, "u8")
EMU_CODE(float, "f4")
EMU_CODE(double, "f8")

template <class T>
struct parameter {
    typedef T stored;
    static constexpr EmuParameter value = {code<T>::value, sizeof(T), 0, 0};
};

template <class T>
struct parameter<const T> : parameter<T> {};

template <class T>
struct parameter<T*> {
    typedef T* stored;
    static constexpr EmuParameter value = {code<T>::value, sizeof(T*), 1, 0};
};

template <class T>
struct parameter<const T*> {
    typedef const T* stored;
    static constexpr EmuParameter value = {code<T>::value, sizeof(T*), 1, 1};
};

template <class T>
struct parameter<T* const> : parameter<T*> {};

template <class T>
struct parameter<T* __restrict> : parameter<T*> {};

template <size_t... I>
struct numbers {};

template <class... A, size_t... I>
EMU_OWN inline void call_with(void (*kernel)(A...), void** args, numbers<I...>) {
    kernel(*(typename parameter<A>::stored*)args[I]...);
}

template <class... A>
EMU_OWN inline void call(void (*kernel)(A...), void** args) {
    call_with(kernel, args, numbers<__integer_pack(sizeof...(A))...>());
}

template <class... A>
constexpr size_t parameter_bytes() {
    size_t end = 0;
    const size_t pairs[][2] = {
        {sizeof(typename parameter<A>::stored), alignof(typename parameter<A>::stored)}..., {0, 1}};
    for (auto& [size, align] : pairs) end = (end + align - 1) / align * align + size;
    return end;
}

template <class... A>
EMU_OWN inline const EmuParameter* parameters(void (*)(A...), unsigned* n) {
    static_assert(parameter_bytes<A...>() <= 4096,
                  "a kernel takes at most 4096 bytes of arguments");
    static const EmuParameter all[] = {parameter<A>::value..., EmuParameter{}};
    *n = sizeof...(A);
    return all;
}
}  // namespace emu

// emu.py adds one of these for each kernel.
#define EMU_EXPORT(ID, ...)                                                                 \
    extern "C" EMU_OWN void emu_kernel_##ID(void** args) { emu::call(&__VA_ARGS__, args); } \
    extern "C" EMU_OWN const EmuParameter* emu_parameters_##ID(unsigned* n) {               \
        return emu::parameters(&__VA_ARGS__, n);                                            \
    }
