// context.h - switching between fibers: by hand on x86-64 (a few nanoseconds), ucontext elsewhere.
#pragma once
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
// Saves the callee-saved registers and the stack pointer of one context, and loads another's.
extern "C" void emu_switch(void** save, void* load);
asm(R"(.text
.globl emu_switch
.type emu_switch,@function
emu_switch:
 pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
 movq %rsp,(%rdi)
 movq %rsi,%rsp
 popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
 ret
.size emu_switch,.-emu_switch
)");

struct Context {
    void* stack_pointer;

    // The next switch to this context calls `start`, which must not return.
    void prepare(char* stack, size_t bytes, void (*start)()) {
        void** top = (void**)((uintptr_t)(stack + bytes) & ~(uintptr_t)15);
        *--top = nullptr;  // keeps the stack aligned as after a call
        *--top = (void*)start;
        for (int i = 0; i < 6; ++i) *--top = nullptr;
        stack_pointer = top;
    }
};

inline void switch_context(Context& from, Context& to) {
    emu_switch(&from.stack_pointer, to.stack_pointer);
}
#else
#include <ucontext.h>

struct Context {
    ucontext_t saved;

    void prepare(char* stack, size_t bytes, void (*start)()) {
        getcontext(&saved);
        saved.uc_stack.ss_sp = stack;
        saved.uc_stack.ss_size = bytes;
        saved.uc_link = nullptr;
        makecontext(&saved, start, 0);
    }
};

inline void switch_context(Context& from, Context& to) { swapcontext(&from.saved, &to.saved); }
#endif
