// steps.h - the windows that a step of n-step returns completes.
#pragma once
#include "cuda_on_host.h"

#include "nstep.cu"

namespace host {

// Windows that a step completes, in all environments.
static i64 count_windows(const nstep_t& s) {
    i64 windows = 0;
    for (i64 env = 0; env < s.n_envs; ++env) windows += move_of(s, env).complete;
    return windows;
}

// append_steps, whose output has the complete windows alone, in the same order.
static void append(const nstep_t& s) {
    i64 row = 0;
    for (i64 env = 0; env < s.n_envs; ++env) {
        const move_t m = move_of(s, env);
        if (!m.stepped) continue;
        keep_step(s, env, m);
        for (i64 j = 0; j < m.complete; ++j, ++row) {
            copy_window(s, env, m, j, row);
            write_window(s, env, row, (m.start + j) % s.n, m.held - j);
            s.valid[row] = 1;
        }
        move_ring(s, env, m);
    }
}

}  // namespace host
