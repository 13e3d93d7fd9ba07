// checks.h - what is checked at each access of a kernel: bounds, alignment, initialisation, races.
//
// A part of emu_core.cpp, which includes it once.
#pragma once
#include "scheduler.h"

namespace {
// Does an earlier access happen before what `me` does now?
bool ordered(const Access& a, uint32_t my_id, const Fiber* me) {
    if (a.id == my_id) return true;
    uint32_t its = a.id - 1, mine = my_id - 1;
    if (its >> ID_BITS != mine >> ID_BITS) return false;  // blocks are never ordered in one launch
    if (a.epoch < me->epoch) return true;                 // a __syncthreads lies between
    uint32_t number = its & ((1 << ID_BITS) - 1);
    if (number / WARP != me->warp) return false;
    return me->clock[number % WARP] >= a.clock;  // a __syncwarp lies between
}

[[noreturn]] void fail_race(const char* what, const char* where, size_t at, const char* earlier,
                            const Access& a) {
    fail(
        "race: %s of %s at byte %zu conflicts with %s by block %u thread %u with no barrier "
        "between",
        what, where, at, earlier, (a.id - 1) >> ID_BITS, (a.id - 1) & ((1 << ID_BITS) - 1));
}

// Race check of one record, and note of the access in it.
inline void touch(Record& r, size_t at, uint32_t id, Fiber* me, bool write, bool atomic,
                  const char* where) {
    if (r.write.id && !(atomic && r.atomic_write) && !ordered(r.write, id, me))
        fail_race(atomic  ? "atomic"
                  : write ? "write"
                          : "read",
                  where, at, r.atomic_write ? "an atomic write" : "a write", r.write);
    Access now = {id, me->epoch, me->clock[me->lane]};
    if (!write) {
        if (r.read.id != id) r.older_read = r.read;
        r.read = now;
        return;
    }
    if (r.read.id && !ordered(r.read, id, me))
        fail_race(atomic ? "atomic" : "write", where, at, "a read", r.read);
    if (r.older_read.id && !ordered(r.older_read, id, me))
        fail_race(atomic ? "atomic" : "write", where, at, "a read", r.older_read);
    r.write = now;
    r.atomic_write = atomic;
    // later conflicts with those reads are conflicts with this write too, unless both are atomic
    if (!atomic) r.read = r.older_read = Access{};
}

// `origin` is where the array begins in the shadow, for messages.
inline void check_bytes(Shadow& shadow, size_t at, unsigned size, bool write, bool atomic,
                        bool reads, uint32_t generation, const char* where, size_t origin = 0) {
    Fiber* me = current();
    if (reads && !shadow.is_written(at, size))
        fail("uninitialised read of %s: %u bytes at byte %zu, which nobody wrote", where, size,
             at - origin);
    if (write) shadow.mark_access_written(at, size);
    uint32_t id = (me->in->number << ID_BITS | me->number) + 1;
    shadow.visit(at, size, write && !atomic, generation, [&](Record& r, size_t byte) {
        touch(r, byte - origin, id, me, write, atomic, where);
    });
}

[[noreturn]] void fail_outside(uintptr_t a, unsigned size, const char* what) {
    const size_t NEAR = 1 << 20;
    Buffer* b = S.buffers.before(a);
    S.error_address = a;
    if (b && !b->of_library && a - b->end < NEAR)
        fail("out of bounds: %u-byte %s %zu bytes past the end of %s (%zu bytes)", size, what,
             (size_t)(a - b->end), b->name.c_str(), b->size());
    fail("out of bounds: %u-byte %s of %p, which is in no array", size, what, (void*)a);
}

// The last part that begins at or before the offset.
inline const SharedPart& shared_part(const Block& b, size_t at) {
    size_t i = b.shared_parts.size() - 1;
    while (b.shared_parts[i].begin > at) --i;
    return b.shared_parts[i];
}

// Every access of a kernel in mode "check" comes through here before it happens.
inline void access(uintptr_t a, unsigned size, bool write, bool atomic, bool reads, void* pc) {
    Fiber* me = current();
    if (!me || a - (uintptr_t)me->stack < STACK) return;
    if (atomic)
        yield();
    else
        maybe_preempt();
    S.error_pc = (uintptr_t)pc;
    const char* what = write ? "write" : "read";
    Block& block = *me->in;
    size_t at = a - (uintptr_t)block.shared;
    if (at < SHARED_ARENA) {
        const SharedPart& part = shared_part(block, at);
        if (at + size > part.end)
            fail("out of bounds: %u-byte %s at byte %zu of %zu bytes of shared memory", size, what,
                 at - part.begin, part.end - part.begin);
        if (at % size)
            fail("misaligned %u-byte %s of shared memory at byte %zu", size, what, at - part.begin);
        check_bytes(*block.shadow, at, size, write, atomic, reads, block.generation,
                    "shared memory", part.begin);
        return;
    }
    ++S.accesses;
    Buffer* b = S.buffers.find(a);
    if (!b) fail_outside(a, size, what);
    at = a - b->begin;
    if (at + size > b->size())
        fail("out of bounds: %u-byte %s straddles the end of %s", size, what, b->name.c_str());
    if (a % size) fail("misaligned %u-byte %s of %s at byte %zu", size, what, b->name.c_str(), at);
    if (write && b->read_only) fail("write of constant %s", b->name.c_str());
    check_bytes(b->shadow, at, size, write, atomic, reads, S.launch_generation, b->name.c_str());
}

// An access of any length, in the largest aligned pieces.
void access_range(uintptr_t a, size_t n, bool write, void* pc) {
    while (n) {
        unsigned size = 16;
        while (size > n || a % size) size /= 2;
        access(a, size, write, false, !write, pc);
        a += size;
        n -= size;
    }
}
}  // namespace
