// scheduler.h - a launch: its blocks, its threads as fibers, and the order in which they run.
//
// A part of emu_core.cpp, which includes it once.
#pragma once
#include "buffers.h"
#include "context.h"
#include "kinds.h"
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

struct uint3 {
    unsigned x, y, z;
};

// The public head of a fiber (cuda_emu.h).
struct EmuThread {
    uint3 thread, block;
};

namespace {
const size_t STACK = 64 * 1024;
const size_t STATIC_SHARED_MAX = 48 * 1024;
// Room for a block's shared arrays, of 227 KiB together, with a gap after each: to run from one
// array into the next is an error here, though a card has them side by side.
const size_t SHARED_GAP = 256, SHARED_ARENA = 512 * 1024;
const int POISON = 0xFF;  // NaN, or -1
const unsigned WARP = 32;
const unsigned ID_BITS = 10;  // of the thread number in Access::id; the rest is the block's

struct Block;

struct Fiber : EmuThread {
    Context context;
    char* stack;
    Block* in;
    unsigned number, lane, warp;  // number in the block, and its parts
    bool done;
    uint16_t epoch;        // __syncthreads passed; accesses of an earlier epoch happened before
    uint16_t clock[WARP];  // vector clock: how many __syncwarp of each lane happened before
    int barrier_result;    // of __syncthreads_count/and/or
    const char* waits_in;  // for messages
    const char* waits_file;
    int waits_line;
};

// Lanes of a warp that meet in collectives of one mask.  Two generations of values, since a lane
// may arrive at the next collective before all have read the last one.
struct Meeting {
    uint32_t mask, arrived = 0, present[2];
    int kind, site;
    const char* file;
    unsigned generation = 0;
    uint64_t value[2][WARP];
};

// Bytes [begin, end) of a block's shared memory: the dynamic one, or what a declaration stands for.
struct SharedPart {
    const void* site;
    size_t begin, end;
};

struct Warp {
    uint32_t exited;
    std::vector<Meeting> meetings;
};

// A resident block.
struct Block {
    unsigned number;
    std::vector<Fiber*> fibers;
    std::vector<Warp> warps;
    // the barrier: how many are at it (or have left the kernel), and where it is
    unsigned arrived, exited;
    int barrier_site, barrier_kind;
    const char* barrier_file;
    int accumulated, barrier_result;
    // shared memory: bytes in use, with the gaps; bytes that the declarations ask for
    char* shared;
    size_t shared_used, static_shared;
    uint32_t generation;
    Shadow* shadow;
    std::vector<SharedPart> shared_parts;  // ascending
};

struct Arena {
    char* bytes;
    Shadow shadow;
};

struct State {
    bool active = false, checking;
    // the launch
    unsigned threads, blocks;
    void (*kernel)(void**);
    void** args;
    size_t dynamic_shared, shared_limit;
    uint32_t generation = 0, launch_generation;
    // the schedule
    std::vector<Fiber*> all_fibers, ready;
    std::vector<Block> resident;
    std::vector<unsigned> order;
    size_t next_block;
    Block* finished;  // a block whose fibers may be made anew
    Context main;
    uint64_t random_state;
    bool random_order;
    uint64_t preempt_gap, until_preempt;
    std::vector<Arena*> arenas;
    uint64_t steps, limit, accesses;
    // what was found
    std::string error;
    uintptr_t error_pc, error_address;
    Buffers buffers;
} S;

uint64_t random64() {
    uint64_t x = S.random_state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return S.random_state = x;
}

size_t round_up(size_t n, size_t step) { return (n + step - 1) / step * step; }

size_t random_below(size_t n) { return (size_t)((unsigned __int128)random64() * n >> 64); }
}  // namespace

extern "C" {
EmuThread* emu_current;
uint3 emu_block_dim, emu_grid_dim;
}

namespace {
Fiber* current() { return (Fiber*)emu_current; }

// ---- findings

[[noreturn]] void leave() {
    Fiber* me = current();
    emu_current = nullptr;
    switch_context(me->context, S.main);
    abort();
}

[[noreturn]] __attribute__((format(printf, 1, 2))) void fail(const char* format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    Fiber* me = current();
    char who[256];
    snprintf(who, sizeof who, " [block (%u,%u,%u) thread (%u,%u,%u) warp %u lane %u]", me->block.x,
             me->block.y, me->block.z, me->thread.x, me->thread.y, me->thread.z, me->warp,
             me->lane);
    S.error = std::string(text) + who;
    leave();
}

void say_deadlock() {
    std::string text = "deadlock:";
    unsigned waiting = 0, exited = 0;
    for (auto& b : S.resident)
        for (auto* f : b.fibers) {
            if (f->done) {
                ++exited;
            } else if (waiting++ < 4) {
                char t[300];
                snprintf(t, sizeof t, " block %u thread %u waits in %s at %s:%d;", b.number,
                         f->number, f->waits_in, f->waits_file, f->waits_line);
                text += t;
            }
        }
    S.error = text + " " + std::to_string(waiting) + " threads wait, " + std::to_string(exited) +
              " have exited";
    S.error_pc = 0;
}

// A site is a line (low 16 bits) and a counter, so that two barriers on one line differ.
int line_of(int site) { return site & 0xffff; }

// ---- scheduling

Fiber* pick() {
    if (S.ready.empty()) return nullptr;
    if (S.random_order) std::swap(S.ready[random_below(S.ready.size())], S.ready.back());
    Fiber* f = S.ready.back();
    S.ready.pop_back();
    return f;
}

void count_step() {
    if (++S.steps > S.limit) {
        S.error_pc = 0;
        fail("step limit: an endless loop, or threads that wait for each other by spinning?");
    }
}

void resume(Fiber* f) {
    Fiber* me = current();
    if (f == me) return;
    count_step();
    emu_current = f;
    switch_context(me->context, f->context);
}

// Go on only when somebody makes this fiber ready again.
void sleep_at(const char* what, const char* file, int site) {
    Fiber* me = current();
    me->waits_in = what;
    me->waits_file = file;
    me->waits_line = line_of(site);
    Fiber* f = pick();
    if (!f) {
        say_deadlock();
        leave();
    }
    resume(f);
}

// Let others go on, and go on some time later.
void yield() {
    count_step();
    if (S.ready.empty()) return;
    S.ready.push_back(current());
    resume(pick());
}

void maybe_preempt() {
    if (!S.until_preempt || --S.until_preempt) return;
    S.until_preempt = 1 + random_below(S.preempt_gap);
    yield();
}

// ---- barriers and collectives

void release_barrier(Block& b, Fiber* last) {
    b.arrived = 0;
    b.barrier_result = b.accumulated;
    for (auto* f : b.fibers)
        if (!f->done) {
            if (!++f->epoch) fail("more barriers than the emulator can count");
            f->barrier_result = b.barrier_result;
            if (f != last) S.ready.push_back(f);
        }
}

// All lanes have arrived: hand out the values and let them go on.
void complete(Block& b, unsigned warp, Meeting& m, Fiber* last) {
    unsigned slot = m.generation++ & 1;
    uint32_t lanes = m.present[slot] = m.arrived;
    m.arrived = 0;
    Fiber** fiber = &b.fibers[warp * WARP];
    if (m.kind == EMU_KIND_SYNCWARP) {  // joins the clocks; shuffles and votes do not order memory
        uint16_t joined[WARP] = {};
        for (unsigned l = 0; l < WARP; ++l)
            if (lanes >> l & 1)
                for (unsigned k = 0; k < WARP; ++k)
                    joined[k] = std::max(joined[k], fiber[l]->clock[k]);
        for (unsigned l = 0; l < WARP; ++l)
            if (lanes >> l & 1) {
                memcpy(fiber[l]->clock, joined, sizeof joined);
                if (!++fiber[l]->clock[l]) fail("more barriers than the emulator can count");
            }
    }
    for (unsigned l = 0; l < WARP; ++l)
        if ((lanes >> l & 1) && fiber[l] != last) S.ready.push_back(fiber[l]);
}

// ---- a block's life

void fiber_main();

void start_block(Block& b) {
    unsigned number = S.order[S.next_block++];
    b.number = number;
    b.arrived = b.exited = 0;
    b.generation = ++S.generation;
    b.shadow->forget_written(b.shared_used);
    b.shared_used = S.dynamic_shared;
    memset(b.shared, POISON, b.shared_used);
    b.static_shared = 0;
    b.shared_parts.assign(1, {nullptr, 0, S.dynamic_shared});
    for (auto& w : b.warps) {
        w.exited = 0;
        w.meetings.clear();
    }
    if (S.threads % WARP) b.warps.back().exited = ~((1u << (S.threads % WARP)) - 1);
    uint3 at = {number % emu_grid_dim.x, number / emu_grid_dim.x % emu_grid_dim.y,
                number / emu_grid_dim.x / emu_grid_dim.y};
    uint3 dim = emu_block_dim;
    for (unsigned i = 0; i < S.threads; ++i) {
        Fiber* f = b.fibers[i];
        f->thread = {i % dim.x, i / dim.x % dim.y, i / dim.x / dim.y};
        f->block = at;
        f->in = &b;
        f->number = i;
        f->lane = i % WARP;
        f->warp = i / WARP;
        f->done = false;
        f->epoch = 0;
        memset(f->clock, 0, sizeof f->clock);
        f->clock[f->lane] = 1;
        // stagger the stacks' tops: equal offsets would share cache sets
        f->context.prepare(f->stack, STACK - (size_t)(i % 31) * 320, fiber_main);
    }
    for (unsigned i = S.threads; i-- > 0;) S.ready.push_back(b.fibers[i]);
}

void fiber_main() {
    S.kernel(S.args);
    Fiber* me = current();
    Block& b = *me->in;
    me->done = true;
    b.exited++;
    Warp& w = b.warps[me->warp];
    w.exited |= 1u << me->lane;
    for (auto& m : w.meetings)
        if (m.arrived && !(m.mask & ~w.exited & ~m.arrived)) complete(b, me->warp, m, nullptr);
    if (b.arrived && b.arrived + b.exited == S.threads) release_barrier(b, nullptr);
    if (b.exited == S.threads) {
        S.finished = &b;  // the launch starts the next block, since that re-makes this very stack
        leave();
    }
    Fiber* f = pick();
    if (!f) {
        say_deadlock();
        leave();
    }
    emu_current = f;
    switch_context(me->context, f->context);
    abort();
}
}  // namespace
