// memory.cu - what memory a kernel may touch, and how.

typedef unsigned char u8;
typedef long long i64;
typedef unsigned long long u64;

// ---- bytes of one word, and words over bytes

// thread t writes byte t
extern "C" __global__ void write_bytes(u8* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = (u8)i;
}

// each row of `stride` bytes belongs to one thread, which writes it in pieces of `piece` bytes
extern "C" __global__ void write_rows(u8* out, int rows, int stride, int piece) {
    for (int r = blockIdx.x * blockDim.x + threadIdx.x; r < rows; r += gridDim.x * blockDim.x) {
        u8* row = out + (i64)r * stride;
        for (int at = 0; at + piece <= stride; at += piece) {
            if (piece == 16) *reinterpret_cast<uint4*>(row + at) = make_uint4(r, r, r, r);
            if (piece == 8) *reinterpret_cast<u64*>(row + at) = (u64)r;
            if (piece == 4) *reinterpret_cast<unsigned*>(row + at) = (unsigned)r;
            if (piece == 2) *reinterpret_cast<unsigned short*>(row + at) = (unsigned short)r;
            if (piece == 1) row[at] = (u8)r;
        }
    }
}

// thread t writes byte t, and then thread 0 the word of the first four: a race with 1, 2 and 3
extern "C" __global__ void write_bytes_then_word(u8* out) {
    out[threadIdx.x] = 1;
    if (threadIdx.x == 0) *reinterpret_cast<unsigned*>(out) = 0;
}

extern "C" __global__ void write_bytes_then_word_fixed(u8* out) {
    out[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 0) *reinterpret_cast<unsigned*>(out) = 0;
    __syncthreads();
    out[threadIdx.x] = 2;
}

// two threads write overlapping bytes at different widths
extern "C" __global__ void overlapping_widths(u8* out) {
    if (threadIdx.x == 0) *reinterpret_cast<u64*>(out) = 0;
    if (threadIdx.x == 1) out[7] = 1;
}

// ---- sparse rows

// row r = rows[i] of `width` floats: out[i] = its first value, then writes 7 there
extern "C" __global__ void touch_rows(float* data, const i64* rows, int n, i64 width, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float* row = data + rows[i] * width;
    out[i] = row[0];
    row[0] = 7.f;
}

extern "C" __global__ void write_rows_at(float* data, const i64* rows, int n, i64 width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[rows[i] * width] = 7.f;
}

// the address is computed in 32 bits
extern "C" __global__ void row_address_in_32_bits(float* data, const i64* rows, int n, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[(unsigned)rows[i] * (unsigned)width] = 7.f;
}

// ---- a struct by value, with pointers in it

struct table_t {
    const float* from;
    float* to;
    int n;
    short scale;
};

extern "C" __global__ void copy_by_table(const table_t table, int twice) {
    for (int i = threadIdx.x; i < table.n; i += blockDim.x)
        table.to[i] = table.from[i] * (float)table.scale * (float)twice;
}

struct many_t {
    table_t columns[16];
};

extern "C" __global__ void copy_by_tables(const many_t many, int which) {
    const table_t& t = many.columns[which];
    for (int i = threadIdx.x; i < t.n; i += blockDim.x) t.to[i] = t.from[i];
}

// ---- variables of the module

__constant__ int primes[4] = {2, 3, 5, 7};
__device__ int calls = 0;
static __device__ const u8 squares[5] = {0, 1, 4, 9, 16};

extern "C" __global__ void use_variables(int* out) {
    if (threadIdx.x == 0) calls += 1;
    out[threadIdx.x] = primes[threadIdx.x % 4] + squares[threadIdx.x % 5];
    atomicAdd(out + 64, 1);
}

extern "C" __global__ void write_constant(int* out) {
    const_cast<u8*>(squares)[threadIdx.x] = 1;
    out[threadIdx.x] = squares[threadIdx.x];
}

extern "C" __global__ void racing_variable(int* out) {
    calls += 1;
    out[threadIdx.x] = 0;
}

// ---- copies

struct pair_t {
    u64 a, b, c;
};

extern "C" __global__ void copy_struct(const pair_t* from, pair_t* to, int n) {
    if (threadIdx.x < n) to[threadIdx.x] = from[threadIdx.x];
}

extern "C" __global__ void copy_by_memcpy(const pair_t* from, pair_t* to, int n) {
    if (threadIdx.x < n) memcpy(to + threadIdx.x, from + threadIdx.x, sizeof(pair_t));
}

// ---- small ones for the fake's tests

extern "C" __global__ void add_one(int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1;
}

extern "C" __global__ void store(int* x, int value) { x[threadIdx.x] = value; }

extern "C" __global__ void copy(const int* from, int* to, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        to[i] = from[i];
}

extern "C" __global__ void draw(const u64* counter, u64* out) {
    out[threadIdx.x] = (*counter + threadIdx.x) * 0x9E3779B97F4A7C15ull;
}

extern "C" __global__ void advance(u64* counter) { *counter += 1; }

extern "C" __global__ void take_many_types(int a, unsigned b, i64 c, float d, double e, bool f,
                                           u8 g, double* out) {
    out[0] = a + b + c + d + e + f + g;
}
