// nstep.cu - n-step aggregation: one step of every environment in, the windows that it completes out.
//
// Layout     pending steps of environment e are rows e * n ... e * n + n - 1 of each kept column, a
//            ring that begins at slot starts[e] and holds counts[e] < n steps. Window j of e, by age,
//            is row e * n + j of the output.
// Invariant  every step is the first of exactly one window, unless it is forgotten by forget_steps
// Host twin  cpreplay/host_nstep.py
// Errors     none: what can be refused is refused before the launch
// Source     Sutton & Barto 2018, Reinforcement Learning, equation 12.1
#include "common.cuh"
#include "copy.cuh"
#include "floats.cuh"

#define MAX_KEPT 32

// A column of the windows. Columns of booleans hold 0 and 1 alone, whatever bytes come in.
struct kept_t {
    u8* pending;     // rows of steps that wait; null for next_obs, which is the last step's
    const u8* step;  // one row an environment
    u8* out;         // n rows an environment; null for the rewards, which are summed
    i64 bytes;       // of a row
    i64 boolean;
};

struct nstep_t {
    i64 n, n_envs;
    double gamma;
    i64* starts;
    i64* counts;
    i64 kept_columns;
    kept_t kept[MAX_KEPT];  // the columns of a window's first step
    kept_t next_obs;
    const u32* rewards;  // all pending ones, as bits of float32; see floats.cuh
    u32* reward;
    u32* discount;
    const u8* terminated;
    const u8* truncated;
    const u8* mask;  // null: every environment took a step
    u8* terminated_out;
    u8* truncated_out;
    u8* valid;
};

template <typename word_t>
__device__ __forceinline__ void copy_words(u8* to, const u8* from, i64 bytes) {
    for (i64 i = threadIdx.x; i < bytes / (i64)sizeof(word_t); i += blockDim.x)
        ((word_t*)to)[i] = ((const word_t*)from)[i];
}

// Copies one row of a column, by all threads of a block.
__device__ __forceinline__ void copy_row(const kept_t& column, u8* to, const u8* from) {
    const i64 bytes = column.bytes;
    if (column.boolean) {
        for (i64 i = threadIdx.x; i < bytes; i += blockDim.x) to[i] = from[i] != 0;
        return;
    }
    switch (word_bytes((u64)to | (u64)from | (u64)bytes)) {
        case 16: copy_words<uint4>(to, from, bytes); break;
        case 8: copy_words<u64>(to, from, bytes); break;
        case 4: copy_words<u32>(to, from, bytes); break;
        case 2: copy_words<unsigned short>(to, from, bytes); break;
        default: copy_words<u8>(to, from, bytes);
    }
}

// Writes the numbers of one window of `length` pending steps that begins at slot `first`.
__device__ __forceinline__ void write_window(const nstep_t& s, i64 env, i64 row, i64 first,
                                             i64 length) {
    double total = 0.0, discount = 1.0;
    for (i64 k = 0; k < length; ++k) {
        total += discount * exact_double(s.rewards[env * s.n + (first + k) % s.n]);
        discount *= s.gamma;
    }
    const bool terminated = s.terminated[env] != 0;
    s.reward[row] = float_bits(total);
    s.discount[row] = terminated ? 0u : float_bits(discount);
    s.terminated_out[row] = terminated;
    s.truncated_out[row] = s.truncated[env] != 0;
}

// What becomes of an environment in one step.
struct move_t {
    bool stepped, ended;
    i64 start, held;  // where its pending steps begin, and how many there are with this one
    i64 complete;     // windows that go out
};

__device__ __forceinline__ move_t move_of(const nstep_t& s, i64 env) {
    move_t m;
    m.stepped = !s.mask || s.mask[env];
    m.ended = s.terminated[env] || s.truncated[env];
    m.start = s.starts[env];
    m.held = s.counts[env] + 1;
    m.complete = !m.stepped ? 0 : m.ended ? m.held : m.held == s.n ? 1 : 0;
    return m;
}

// Keeps the step that an environment took. By all threads of a block, as the next.
__device__ __forceinline__ void keep_step(const nstep_t& s, i64 env, const move_t& m) {
    const i64 slot = env * s.n + (m.start + m.held - 1) % s.n;
    for (i64 c = 0; c < s.kept_columns; ++c) {
        const kept_t& k = s.kept[c];
        copy_row(k, k.pending + slot * k.bytes, k.step + env * k.bytes);
    }
}

// Copies the columns of window j to a row of the output.
__device__ __forceinline__ void copy_window(const nstep_t& s, i64 env, const move_t& m, i64 j,
                                            i64 row) {
    const i64 slot = env * s.n + (m.start + j) % s.n;
    for (i64 c = 0; c < s.kept_columns; ++c) {
        const kept_t& k = s.kept[c];
        if (k.out) copy_row(k, k.out + row * k.bytes, k.pending + slot * k.bytes);
    }
    const kept_t& last = s.next_obs;
    copy_row(last, last.out + row * last.bytes, last.step + env * last.bytes);
}

// Moves the ring of an environment that stepped. By one thread.
__device__ __forceinline__ void move_ring(const nstep_t& s, i64 env, const move_t& m) {
    const i64 moved = !m.ended && m.held == s.n;
    s.starts[env] = m.ended ? 0 : (m.start + moved) % s.n;
    s.counts[env] = m.ended ? 0 : m.held - moved;
}

// append_steps: a block an environment, since its windows share what they end with; a barrier stands
// between the step that comes in and the windows that go out.
extern "C" __global__ void append_steps(nstep_t s) {
    for (i64 env = blockIdx.x; env < s.n_envs; env += gridDim.x) {
        const i64 base = env * s.n;
        const move_t m = move_of(s, env);
        if (m.stepped) keep_step(s, env, m);
        __syncthreads();
        for (i64 j = 0; j < m.complete; ++j) copy_window(s, env, m, j, base + j);
        for (i64 j = threadIdx.x; j < s.n; j += blockDim.x) {
            s.valid[base + j] = j < m.complete;
            if (j < m.complete)
                write_window(s, env, base + j, (m.start + j) % s.n, m.held - j);
        }
        if (threadIdx.x == 0 && m.stepped) move_ring(s, env, m);  // read before the barrier
    }
}

// forget_steps: counts i64[n_envs] to 0 where mask u8[n_envs] is set (null: everywhere). A thread an
// environment.
extern "C" __global__ void forget_steps(i64* counts, i64 n_envs, const u8* mask) {
    for (i64 env = grid_start(); env < n_envs; env += grid_step())
        if (!mask || mask[env]) counts[env] = 0;
}
