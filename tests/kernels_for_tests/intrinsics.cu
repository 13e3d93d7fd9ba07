// intrinsics.cu - arithmetic, conversions, atomics and vector types of cuda_emu.h on arrays of
// values, for tests that know the results.  It does not call all that the shim has.

typedef unsigned int u32;
typedef unsigned long long u64;

#define EACH(i, n) \
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)

extern "C" __global__ void integers(const u64* a, const u64* b, u64* high, u32* high32, int* bits,
                                    int n) {
    EACH (i, n) {
        high[i] = __umul64hi(a[i], b[i]);
        high32[i] = __umulhi((u32)a[i], (u32)b[i]);
        bits[i] = __popcll(a[i]) + 100 * __clz((int)b[i]) + 10000 * __ffs((int)a[i]);
    }
}

extern "C" __global__ void float_to_integer(const float* x, int* rn, u32* urn, float* nearest,
                                            int* rz, int n) {
    EACH (i, n) {
        rn[i] = __float2int_rn(x[i]);
        urn[i] = __float2uint_rn(x[i]);
        nearest[i] = rintf(x[i]);
        rz[i] = __float2int_rz(x[i]);
    }
}

extern "C" __global__ void double_to_integer(const double* x, int* rn, u32* urn, long long* wide,
                                             u64* unsigned_wide, int n) {
    EACH (i, n) {
        rn[i] = __double2int_rn(x[i]);
        urn[i] = __double2uint_rn(x[i]);
        wide[i] = __double2ll_rn(x[i]);
        unsigned_wide[i] = __double2ull_rn(x[i]);
    }
}

extern "C" __global__ void float_arithmetic(const float* a, const float* b, float* sum,
                                            float* product, float* quotient, float* both, int n) {
    EACH (i, n) {
        sum[i] = __fadd_rn(a[i], b[i]);
        product[i] = __fmul_rn(a[i], b[i]);
        quotient[i] = __fdiv_rn(a[i], b[i]);
        both[i] = a[i] * b[i] + a[i];  // two roundings: no fused multiply-add
    }
}

extern "C" __global__ void double_arithmetic(const double* a, const double* b, double* sum,
                                             double* difference, double* product, double* quotient,
                                             double* both, int n) {
    EACH (i, n) {
        sum[i] = __dadd_rn(a[i], b[i]);
        difference[i] = __dsub_rn(a[i], b[i]);
        product[i] = __dmul_rn(a[i], b[i]);
        quotient[i] = __ddiv_rn(a[i], b[i]);
        both[i] = a[i] * b[i] + a[i];
    }
}

extern "C" __global__ void conversions(const double* x, const u64* words, float* narrowed,
                                       double* widened, int* kinds, double* absolute, double* power,
                                       int n) {
    EACH (i, n) {
        narrowed[i] = __double2float_rn(x[i]);
        widened[i] = __ull2double_rn(words[i]);
        kinds[i] = (isnan(x[i]) ? 1 : 0) + (isfinite(x[i]) ? 2 : 0) + (isnan((float)1.f) ? 4 : 0);
        absolute[i] = fabs(x[i]);
        power[i] = pow(absolute[i], 0.5);
    }
}

extern "C" __global__ void subnormals(const float* x, float* doubled, int n) {
    EACH (i, n) doubled[i] = x[i] * 2.f;
}

// every thread takes part in every counter
extern "C" __global__ void atomics(int* i, u32* u, u64* w, u64* order) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(i, t);
    atomicMax(i + 1, t);
    atomicAdd(u, 1u);
    atomicMax(u + 1, (u32)t * 7u);
    atomicAdd(w, 1ull << 33);
    atomicMax(w + 1, (u64)t << 40);
    atomicExch(i + 2, 5);
    atomicExch(u + 2, 6u);
    atomicExch(w + 2, 7ull);
    atomicCAS(i + 3, 0, t + 1);
    atomicCAS(u + 3, 0u, (u32)t + 1u);
    u64 seen = atomicCAS(w + 3, 0ull, 0ull), expected;
    do {
        expected = seen;
        seen = atomicCAS(w + 3, expected, expected + 2ull);
    } while (seen != expected);
    order[atomicAdd(u + 4, 1u)] = (u64)t;
}

// the types through which bytes are moved
extern "C" __global__ void vectors(const uchar4* c4, const ulonglong2* l2, uchar2* c2, ushort4* s4,
                                   uint2* u2, uint4* u4, longlong2* i2) {
    uchar4 c = c4[threadIdx.x];
    c2[threadIdx.x] = make_uchar2(c.w, c.x);
    unsigned short s = (unsigned short)(c.x + c.y);
    s4[threadIdx.x] = make_ushort4(s, s, s, s);
    u2[threadIdx.x] = make_uint2(c.x, c.y);
    u4[threadIdx.x] = make_uint4(c.x, c.y, c.z, c.w);
    ulonglong2 l = l2[threadIdx.x];
    i2[threadIdx.x] = make_longlong2((long long)l.y, (long long)l.x);
}
