// planted_bugs.cu - for each mistake that the emulator is to report, a kernel with it and a correct
// twin (NAME and NAME_fixed).  Launched with one or two blocks of 64 threads; n is 64.

// ---- one counter, many threads

extern "C" __global__ void lost_update(int* counter) { *counter += 1; }

extern "C" __global__ void lost_update_fixed(int* counter) { atomicAdd(counter, 1); }

// ---- the last thread read too, which does not make up for the others' reads

extern "C" __global__ void write_after_all_read(int* x, int* out) {
    int seen = *x;
    if (threadIdx.x == 63) *x = seen + 1;
    out[threadIdx.x] = seen;
}

extern "C" __global__ void write_after_all_read_fixed(int* x, int* out) {
    int seen = *x;
    __syncthreads();
    if (threadIdx.x == 63) *x = seen + 1;
    out[threadIdx.x] = seen;
}

// ---- a plain read of what others change by atomics

extern "C" __global__ void plain_read_beside_atomics(int* x, int* out) {
    if (threadIdx.x == 0) out[0] = *x;
    if (threadIdx.x <= 1) atomicAdd(x, 1);
}

extern "C" __global__ void plain_read_beside_atomics_fixed(int* x, int* out) {
    if (threadIdx.x == 0) out[0] = atomicAdd(x, 0);
    if (threadIdx.x <= 1) atomicAdd(x, 1);
}

// ---- a barrier of the warp that the reader does not take part in

extern "C" __global__ void syncwarp_without_the_reader(int* x, int* out) {
    if (threadIdx.x == 0) *x = 1;
    if (threadIdx.x < 16) __syncwarp(0x0000ffffu);
    if (threadIdx.x == 16) out[0] = *x;
}

extern "C" __global__ void syncwarp_without_the_reader_fixed(int* x, int* out) {
    if (threadIdx.x == 0) *x = 1;
    if (threadIdx.x < 17) __syncwarp(0x0001ffffu);
    if (threadIdx.x == 16) out[0] = *x;
}

// ---- a barrier is missing between writing and reading shared memory

extern "C" __global__ void missing_syncthreads(const int* in, int* out) {
    __shared__ int s[64];
    s[threadIdx.x] = in[threadIdx.x];
    out[threadIdx.x] = s[63 - threadIdx.x];
}

extern "C" __global__ void missing_syncthreads_fixed(const int* in, int* out) {
    __shared__ int s[64];
    s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[63 - threadIdx.x];
}

extern "C" __global__ void missing_syncwarp(const int* in, int* out) {
    __shared__ int s[64];
    s[threadIdx.x] = in[threadIdx.x];
    out[threadIdx.x] = s[threadIdx.x ^ 1];
}

extern "C" __global__ void missing_syncwarp_fixed(const int* in, int* out) {
    __shared__ int s[64];
    s[threadIdx.x] = in[threadIdx.x];
    __syncwarp();
    out[threadIdx.x] = s[threadIdx.x ^ 1];
}

// a shuffle brings lanes together but does not order their memory
extern "C" __global__ void shuffle_as_barrier(const int* in, int* out) {
    __shared__ int s[64];
    s[threadIdx.x] = in[threadIdx.x];
    int other = __shfl_xor_sync(0xffffffffu, (int)threadIdx.x, 1);
    out[threadIdx.x] = s[other];
}

extern "C" __global__ void shuffle_as_barrier_fixed(const int* in, int* out) {
    __shared__ int s[64];
    s[threadIdx.x] = in[threadIdx.x];
    int other = __shfl_xor_sync(0xffffffffu, (int)threadIdx.x, 1);
    __syncwarp();
    out[threadIdx.x] = s[other];
}

// ---- threads of one block go to different barriers

extern "C" __global__ void divergent_barrier(int* out) {
    if (threadIdx.x < 32) {
        __syncthreads();
        out[threadIdx.x] = 1;
    } else {
        __syncthreads();
        out[threadIdx.x] = 2;
    }
}

extern "C" __global__ void divergent_barrier_fixed(int* out) {
    __syncthreads();
    out[threadIdx.x] = threadIdx.x < 32 ? 1 : 2;
}

// half of the block waits at a barrier, the other half for a value that comes after it
extern "C" __global__ void barrier_in_a_branch(int* out) {
    __shared__ int s;
    if (threadIdx.x < 32) __syncthreads();
    if (threadIdx.x >= 32) s = __syncthreads_count(1);
    __syncthreads();
    out[threadIdx.x] = s;
}

extern "C" __global__ void barrier_in_a_branch_fixed(int* out) {
    __shared__ int s;
    int n = __syncthreads_count(threadIdx.x >= 32);
    if (threadIdx.x == 0) s = n;
    __syncthreads();
    out[threadIdx.x] = s;
}

// ---- lanes of one warp go to different shuffles

extern "C" __global__ void divergent_shuffle(int* out) {
    int v = threadIdx.x;
    if (threadIdx.x % 2)
        v = __shfl_xor_sync(0xffffffffu, v, 1);
    else
        v = __shfl_xor_sync(0xffffffffu, v, 2);
    out[threadIdx.x] = v;
}

extern "C" __global__ void divergent_shuffle_fixed(int* out) {
    int v = threadIdx.x;
    int one = __shfl_xor_sync(0xffffffffu, v, 1);
    int two = __shfl_xor_sync(0xffffffffu, v, 2);
    out[threadIdx.x] = threadIdx.x % 2 ? one : two;
}

// ---- lanes leave before a shuffle that reads them

extern "C" __global__ void exit_before_shuffle(int* out, int n) {
    if (threadIdx.x >= n - 1) return;
    out[threadIdx.x] = __shfl_down_sync(0xffffffffu, (int)threadIdx.x, 1);
}

extern "C" __global__ void exit_before_shuffle_fixed(int* out, int n) {
    int v = __shfl_down_sync(0xffffffffu, (int)threadIdx.x, 1);
    if (threadIdx.x >= n - 1) return;
    out[threadIdx.x] = v;
}

// ---- the caller is not among the lanes it names

extern "C" __global__ void lane_not_in_mask(int* out) {
    out[threadIdx.x] = __shfl_sync(0x7fffffffu, (int)threadIdx.x, 0);
}

extern "C" __global__ void lane_not_in_mask_fixed(int* out) {
    if (threadIdx.x % 32 < 31) out[threadIdx.x] = __shfl_sync(0x7fffffffu, (int)threadIdx.x, 0);
}

// ---- waiting for another block by spinning

extern "C" __global__ void spin(int* flag) {
    if (blockIdx.x == 0 && threadIdx.x == 0)
        while (*(volatile int*)flag == 0) {
        }
    if (blockIdx.x == 1 && threadIdx.x == 0) atomicExch(flag, 1);
}

extern "C" __global__ void spin_fixed(int* flag) {
    if (blockIdx.x == 1 && threadIdx.x == 0) atomicExch(flag, 1);
}

// ---- loops that do not end: with an access of memory, and without

extern "C" __global__ void endless_loop(int* out) {
    for (unsigned i = 0; i != 7; i += 2) out[threadIdx.x] = i;
}

extern "C" __global__ void endless_loop_fixed(int* out) {
    for (unsigned i = 0; i < 7; i += 2) out[threadIdx.x] = i;
}

extern "C" __global__ void endless_arithmetic(int* out, unsigned n) {
    unsigned x = threadIdx.x;
    do x = x * 5 + 1;
    while (x % n != 7);
    out[threadIdx.x] = x;
}

extern "C" __global__ void endless_arithmetic_fixed(int* out, unsigned n) {
    unsigned x = threadIdx.x;
    do x = x * 5 + 1;
    while (x % n != 3);
    out[threadIdx.x] = x;
}

// ---- a vector load at an address that is no multiple of its size

extern "C" __global__ void misaligned_float4(const float* in, float4* out) {
    if (threadIdx.x < 8) out[threadIdx.x] = *(const float4*)(in + 4 * threadIdx.x + 1);
}

extern "C" __global__ void misaligned_float4_fixed(const float* in, float4* out) {
    if (threadIdx.x < 8) out[threadIdx.x] = *(const float4*)(in + 4 * threadIdx.x + 4);
}

extern "C" __global__ void misaligned_atomic(int* x) {
    if (threadIdx.x == 0) atomicAdd((int*)((char*)x + 2), 1);
}

extern "C" __global__ void misaligned_atomic_fixed(int* x) {
    if (threadIdx.x == 0) atomicAdd((int*)((char*)x + 4), 1);
}

// ---- memory that nobody wrote

extern "C" __global__ void uninitialised_shared(int* out) {
    __shared__ int s[64];
    if (threadIdx.x < 63) s[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}

extern "C" __global__ void uninitialised_shared_fixed(int* out) {
    __shared__ int s[64];
    s[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}

// ---- reading what another block writes

extern "C" __global__ void other_blocks_output(int* data, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    data[i] = i;
    __threadfence();
    out[i] = data[i ^ 64];
}

extern "C" __global__ void other_blocks_output_fixed(int* data, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    data[i] = i;
    out[i] = data[i];
}

// ---- out of bounds

extern "C" __global__ void one_past_the_end(int* out, int n) {
    if (threadIdx.x <= n) out[threadIdx.x + 1] = 0;
}

extern "C" __global__ void one_past_the_end_fixed(int* out, int n) {
    if (threadIdx.x < n - 1) out[threadIdx.x + 1] = 0;
}

extern "C" __global__ void past_shared(int* out) {
    extern __shared__ int s[];
    s[threadIdx.x + 1] = threadIdx.x;
    out[threadIdx.x] = 0;
}

extern "C" __global__ void past_shared_fixed(int* out) {
    extern __shared__ int s[];
    s[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = 0;
}

extern "C" __global__ void past_dynamic_shared(int* out) {
    extern __shared__ char c[];  // 101 bytes
    if (threadIdx.x < 64) c[threadIdx.x + 38] = 1;
    out[threadIdx.x] = 0;
}

extern "C" __global__ void past_dynamic_shared_fixed(int* out) {
    extern __shared__ char c[];
    if (threadIdx.x < 63) c[threadIdx.x + 38] = 1;
    out[threadIdx.x] = 0;
}

extern "C" __global__ void into_the_next_shared_array(int* out) {
    __shared__ int a[64];
    __shared__ int b[64];
    int* p = a;
    p[threadIdx.x + 1] = 1;
    __syncthreads();
    if (threadIdx.x > 0) b[threadIdx.x] = p[threadIdx.x];
    out[threadIdx.x] = 0;
}

extern "C" __global__ void into_the_next_shared_array_fixed(int* out) {
    __shared__ int a[65];
    __shared__ int b[64];
    int* p = a;
    p[threadIdx.x + 1] = 1;
    __syncthreads();
    if (threadIdx.x > 0) b[threadIdx.x] = p[threadIdx.x];
    out[threadIdx.x] = 0;
}

// ---- arithmetic that C++ does not define

extern "C" __global__ void signed_overflow(int* out) {
    out[threadIdx.x] = 2147483647 - 10 + (int)threadIdx.x;
}

extern "C" __global__ void signed_overflow_fixed(int* out) {
    out[threadIdx.x] = (int)(2147483647u - 10u + threadIdx.x);
}

extern "C" __global__ void float_cast(const float* in, unsigned char* out) {
    out[threadIdx.x] = (unsigned char)(in[threadIdx.x] * 255.f * 2.f);
}

extern "C" __global__ void float_cast_fixed(const float* in, unsigned char* out) {
    out[threadIdx.x] = (unsigned char)(in[threadIdx.x] * 255.f);
}
