// emu_core.cpp - runs CUDA kernels compiled for the host: one fiber per CUDA thread, scheduled in a
// seeded random order, with barriers, warp collectives and the checks.
//
// One launch runs at a time.  `launch` starts the first blocks' fibers and switches to one of them;
// fibers then switch among themselves, and back to the launch when a block ends, when something is
// found, or when nobody can go on.  Kernels' libraries find what they call here (cuda_emu.h, and
// the hooks that -fsanitize and -fsanitize-coverage put before each access and at each branch).
#include "checks.h"
#include "scheduler.h"
#include <elf.h>
#include <link.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace {
// ---- barriers and collectives, as kernels call them

// In the order of kinds.h.
const char* const COLLECTIVES[] = {
    "__shfl_sync",       "__shfl_up_sync",    "__shfl_down_sync", "__shfl_xor_sync",
    "__ballot_sync",     "__any_sync",        "__all_sync",       "__reduce_add_sync",
    "__reduce_max_sync", "__reduce_min_sync", "__match_any_sync", "__syncwarp",
};
const char* const BARRIERS[] = {"__syncthreads", "__syncthreads_count", "__syncthreads_and",
                                "__syncthreads_or"};

int barrier(const char* file, int site, int kind, int value) {
    Fiber* me = current();
    Block& b = *me->in;
    S.error_pc = 0;
    if (!b.arrived) {
        b.barrier_site = site;
        b.barrier_kind = kind;
        b.barrier_file = file;
        b.accumulated = kind == EMU_KIND_AND;
    } else if (b.barrier_site != site || b.barrier_kind != kind) {
        fail("barrier divergence: %s at %s:%d while others of the block wait in %s at %s:%d",
             BARRIERS[kind], file, line_of(site), BARRIERS[b.barrier_kind], b.barrier_file,
             line_of(b.barrier_site));
    }
    if (kind == EMU_KIND_COUNT) b.accumulated += value;
    if (kind == EMU_KIND_AND) b.accumulated &= value;
    if (kind == EMU_KIND_OR) b.accumulated |= value;
    if (++b.arrived + b.exited == S.threads) {
        release_barrier(b, me);
        if (S.random_order) yield();
    } else {
        sleep_at(BARRIERS[kind], file, site);
    }
    return me->barrier_result;
}
}  // namespace

extern "C" {
#define CALLER __builtin_return_address(0)

// ---- what kernels call through cuda_emu.h

// A scheduling point and a check; the operation follows it, undivided.
void emu_atomic(const void* p, unsigned size, int reads) {
    if (S.checking)
        access((uintptr_t)p, size, true, true, reads, CALLER);
    else if (S.random_order)
        yield();
    else
        count_step();
}

void emu_memcpy(void* to, const void* from, size_t n) {
    if (S.checking) {
        access_range((uintptr_t)from, n, false, CALLER);
        access_range((uintptr_t)to, n, true, CALLER);
    }
    memmove(to, from, n);
}

void emu_memset(void* to, int byte, size_t n) {
    if (S.checking) access_range((uintptr_t)to, n, true, CALLER);
    memset(to, byte, n);
}

void emu_fence() {
    if (S.random_order) yield();
}

[[noreturn]] void emu_fail(const char* what, const char* file, int site) {
    S.error_pc = 0;
    fail("%s at %s:%d", what, file, line_of(site));
}

int emu_lane() { return current()->lane; }

uint32_t emu_activemask() {
    Fiber* me = current();
    return ~me->in->warps[me->warp].exited;
}

void* emu_dynamic_shared() { return current()->in->shared; }

// The block's storage for a __shared__ variable, which its declaration's `site` names.
void* emu_shared(const void* site, size_t bytes, size_t align) {
    Block& b = *current()->in;
    for (auto& part : b.shared_parts)
        if (part.site == site) return b.shared + part.begin;
    S.error_pc = 0;
    // what it would take on a card, where arrays lie side by side
    b.static_shared = round_up(b.static_shared, align) + bytes;
    if (b.static_shared > STATIC_SHARED_MAX || b.static_shared + S.dynamic_shared > S.shared_limit)
        fail("too much shared memory: %zu bytes static and %zu dynamic", b.static_shared,
             S.dynamic_shared);
    size_t at = round_up(b.shared_used + SHARED_GAP, align);
    if (at + bytes > SHARED_ARENA) fail("more shared arrays than the emulator has room for");
    memset(b.shared + b.shared_used, POISON, at + bytes - b.shared_used);
    b.shared_used = at + bytes;
    b.shared_parts.push_back({site, at, at + bytes});
    return b.shared + at;
}

void emu_syncthreads(const char* file, int site) { barrier(file, site, EMU_KIND_SYNCTHREADS, 0); }

int emu_syncthreads_reduce(const char* file, int site, int kind, int value) {
    return barrier(file, site, kind, value);
}

// The values of all lanes of the mask, and which lanes took part.
const uint64_t* emu_collective(const char* file, int site, int kind, uint32_t mask, uint64_t value,
                               uint32_t* present) {
    Fiber* me = current();
    Block& b = *me->in;
    Warp& w = b.warps[me->warp];
    S.error_pc = 0;
    if (!(mask >> me->lane & 1))
        fail("%s at %s:%d: the caller is not in the mask %08x", COLLECTIVES[kind], file,
             line_of(site), mask);
    size_t i = 0;
    while (i < w.meetings.size() && w.meetings[i].mask != mask) ++i;
    if (i == w.meetings.size()) {
        w.meetings.emplace_back();
        w.meetings[i].mask = mask;
    }
    Meeting& m = w.meetings[i];
    if (!m.arrived) {
        m.kind = kind;
        m.site = site;
        m.file = file;
    } else if (m.kind != kind || m.site != site) {
        fail("warp divergence: %s at %s:%d while lanes of the same mask %08x wait in %s at %s:%d",
             COLLECTIVES[kind], file, line_of(site), mask, COLLECTIVES[m.kind], m.file,
             line_of(m.site));
    }
    unsigned slot = m.generation & 1;
    m.value[slot][me->lane] = value;
    m.arrived |= 1u << me->lane;
    if (!(mask & ~w.exited & ~m.arrived)) {  // lanes that have left the kernel are not waited for
        complete(b, me->warp, m, me);
        if (S.random_order && !random_below(4)) yield();
    } else {
        sleep_at(COLLECTIVES[kind], file, site);
    }
    Meeting& after = w.meetings[i];  // the vector may have grown meanwhile
    *present = after.present[slot];
    return after.value[slot];
}

void emu_syncwarp(const char* file, int site, uint32_t mask) {
    uint32_t present;
    emu_collective(file, site, EMU_KIND_SYNCWARP, mask, 0, &present);
}

// ---- the hooks that the compiler puts into kernels

void __tsan_init() {}

void __tsan_func_entry(void*) {}

void __tsan_func_exit() {}

void __tsan_vptr_update(void**, void*) {}

#define TSAN_HOOKS(N)                                                                      \
    void __tsan_read##N(void* p) { access((uintptr_t)p, N, false, false, true, CALLER); }  \
    void __tsan_write##N(void* p) { access((uintptr_t)p, N, true, false, false, CALLER); } \
    void __tsan_unaligned_read##N(void* p) {                                               \
        access((uintptr_t)p, N, false, false, true, CALLER);                               \
    }                                                                                      \
    void __tsan_unaligned_write##N(void* p) { access((uintptr_t)p, N, true, false, false, CALLER); }
TSAN_HOOKS(1)
TSAN_HOOKS(2)
TSAN_HOOKS(4)
TSAN_HOOKS(8)
TSAN_HOOKS(16)

void __tsan_read_range(void* p, size_t n) { access_range((uintptr_t)p, n, false, CALLER); }

void __tsan_write_range(void* p, size_t n) { access_range((uintptr_t)p, n, true, CALLER); }

// At each branch: an endless loop need not touch memory.
void __sanitizer_cov_trace_pc() {
    if (S.active) count_step();
}

// The first member of nearly every record of -fsanitize=undefined.
struct SourcePlace {
    const char* file;
    uint32_t line, column;
};

#define UBSAN_HOOK(N)                                                                     \
    void __ubsan_handle_##N(SourcePlace* at, ...) {                                       \
        S.error_pc = 0;                                                                   \
        fail("undefined behaviour (" #N ") at %s:%u:%u", at->file, at->line, at->column); \
    }                                                                                     \
    void __ubsan_handle_##N##_abort(SourcePlace* at, ...) { __ubsan_handle_##N(at); }
UBSAN_HOOK(out_of_bounds)
UBSAN_HOOK(shift_out_of_bounds)
UBSAN_HOOK(add_overflow)
UBSAN_HOOK(sub_overflow)
UBSAN_HOOK(mul_overflow)
UBSAN_HOOK(negate_overflow)
UBSAN_HOOK(divrem_overflow)
UBSAN_HOOK(pointer_overflow)
UBSAN_HOOK(load_invalid_value)
UBSAN_HOOK(type_mismatch_v1)
UBSAN_HOOK(float_cast_overflow)
UBSAN_HOOK(builtin_unreachable)
UBSAN_HOOK(missing_return)
UBSAN_HOOK(vla_bound_not_positive)
UBSAN_HOOK(invalid_builtin)
UBSAN_HOOK(nonnull_arg)
UBSAN_HOOK(alignment_assumption)

// ---- what emu.py calls

void emu_register(uintptr_t begin, size_t n, const char* name) {
    S.buffers.add(std::make_unique<Buffer>(begin, n, name, false, false));
}

void emu_unregister(uintptr_t begin) { S.buffers.remove(begin); }

void emu_forget_buffers() { S.buffers.remove_arrays(); }

int emu_is_live(uintptr_t at, size_t n) {
    Buffer* b = S.buffers.find(at);
    return b && at + n <= b->end;
}

// A strided area of a buffer has been written by the host or by a copy.
void emu_written(uintptr_t at, size_t itemsize, int ndim, const ssize_t* shape,
                 const ssize_t* strides) {
    size_t run = itemsize;
    while (ndim && strides[ndim - 1] == (ssize_t)run) run *= shape[--ndim];
    if (ndim) {
        for (ssize_t i = 0; i < shape[0]; ++i)
            emu_written(at + i * strides[0], run, ndim - 1, shape + 1, strides + 1);
        return;
    }
    Buffer* b = S.buffers.find(at);
    if (b) b->shadow.mark_written(at - b->begin, std::min(run, (size_t)(b->end - at)));
}

// Zeros, which are not stored: whole pages are given back to the system.
void emu_zero(uintptr_t at, size_t n) {
    uintptr_t end = at + n;
    uintptr_t first = (at + Shadow::PAGE - 1) / Shadow::PAGE * Shadow::PAGE;
    uintptr_t last = end / Shadow::PAGE * Shadow::PAGE;
    if (first >= last) {
        memset((void*)at, 0, n);
        return;
    }
    memset((void*)at, 0, first - at);
    madvise((void*)first, last - first, MADV_DONTNEED);
    memset((void*)last, 0, end - last);
}

static int register_segments(dl_phdr_info* info, size_t, void* path) {
    if (strcmp(info->dlpi_name, (const char*)path)) return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) & segment = info->dlpi_phdr[i];
        if (segment.p_type != PT_LOAD || segment.p_flags & PF_X) continue;
        auto b =
            std::make_unique<Buffer>(info->dlpi_addr + segment.p_vaddr, segment.p_memsz,
                                     "the module's variables", !(segment.p_flags & PF_W), true);
        b->shadow.mark_all_written();
        S.buffers.add(std::move(b));
    }
    return 1;
}

// The __device__ and __constant__ variables of a kernel library lie in its data segments.
void emu_register_library(const char* path) { dl_iterate_phdr(register_segments, (void*)path); }

uintptr_t emu_error_pc() { return S.error_pc; }

// Of an access outside of all buffers, else 0.
uintptr_t emu_error_address() { return S.error_address; }

uint64_t emu_accesses() { return S.accesses; }

// Runs a kernel to its end; returns what was found, or null.
const char* emu_launch(void (*kernel)(void**), void** args, const unsigned* grid,
                       const unsigned* block, size_t dynamic_shared, size_t shared_limit,
                       uint64_t seed, unsigned resident, unsigned preempt_gap, int checking,
                       int flush_denormals, uint64_t limit) {
    S.error.clear();
    S.error_pc = S.error_address = 0;
    S.kernel = kernel;
    S.args = args;
    emu_grid_dim = {grid[0], grid[1], grid[2]};
    emu_block_dim = {block[0], block[1], block[2]};
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    if (threads == 0 || threads > 1024) return "CUDA_ERROR_INVALID_VALUE: block size";
    if (blocks >> (32 - ID_BITS)) return "too many blocks for the emulator";
    if (block[2] > 64) return "CUDA_ERROR_INVALID_VALUE: block size";
    if (dynamic_shared > shared_limit) return "CUDA_ERROR_INVALID_VALUE: shared memory";
    S.threads = threads;
    S.blocks = blocks;
    S.dynamic_shared = dynamic_shared;
    S.shared_limit = shared_limit;
    S.random_order = seed != 0;
    S.random_state = seed * 0x9E3779B97F4A7C15ull + 0x1234567;
    for (int i = 0; i < 4; ++i) random64();
    S.preempt_gap = preempt_gap;
    S.until_preempt = S.random_order && preempt_gap ? 1 + random_below(preempt_gap) : 0;
    S.checking = checking;
    S.limit = limit;
    S.steps = S.accesses = 0;
    S.launch_generation = ++S.generation;
    S.order.resize(blocks);
    for (unsigned i = 0; i < blocks; ++i) S.order[i] = i;
    if (S.random_order)
        for (unsigned i = blocks; i > 1; --i) std::swap(S.order[i - 1], S.order[random_below(i)]);
    resident = std::min(std::max(resident, 1u), S.blocks);
    S.next_block = 0;
    S.ready.clear();
    S.finished = nullptr;
    while (S.arenas.size() < resident) {
        Arena* arena = new Arena();
        arena->bytes = (char*)aligned_alloc(256, SHARED_ARENA);
        arena->shadow.resize(SHARED_ARENA);
        S.arenas.push_back(arena);
    }
    while (S.all_fibers.size() < (size_t)resident * threads) {
        char* memory = (char*)map_sparse(STACK + Shadow::PAGE);
        if (!memory) return "no memory for the threads' stacks";
        mprotect(memory, Shadow::PAGE, PROT_NONE);
        Fiber* f = new Fiber();
        f->stack = memory + Shadow::PAGE;
        S.all_fibers.push_back(f);
    }
    S.resident.resize(resident);
    for (unsigned r = 0; r < resident; ++r) {
        Block& b = S.resident[r];
        b.shared = S.arenas[r]->bytes;
        b.shadow = &S.arenas[r]->shadow;
        b.shared_used = SHARED_ARENA;
        b.warps.resize((threads + WARP - 1) / WARP);
        auto first = S.all_fibers.begin() + (size_t)r * threads;
        b.fibers.assign(first, first + threads);
    }
    for (auto& b : S.resident) start_block(b);
#if defined(__x86_64__)
    unsigned control = _mm_getcsr();
    const unsigned FLUSH_TO_ZERO = 0x8000, DENORMALS_ARE_ZERO = 0x0040;
    if (flush_denormals) _mm_setcsr(control | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
#endif
    S.active = true;
    while (Fiber* f = pick()) {
        emu_current = f;
        switch_context(S.main, f->context);
        if (!S.error.empty()) break;
        if (S.finished && S.next_block < S.order.size()) start_block(*S.finished);
        S.finished = nullptr;
    }
    if (S.error.empty())
        for (auto& b : S.resident)
            if (b.exited != S.threads && S.error.empty()) say_deadlock();
    S.active = false;
    emu_current = nullptr;
#if defined(__x86_64__)
    _mm_setcsr(control);
#endif
    return S.error.empty() ? nullptr : S.error.c_str();
}
}
