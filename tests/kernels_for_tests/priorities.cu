// priorities.cu - the functions of sumtree.cuh and priorities.cuh, a value a thread.
#include "control.cuh"
#include "priorities.cuh"
#include "sumtree.cuh"

extern "C" __global__ void find_rows(tree_t tree, const double* targets, i64 n, i64* rows) {
    for (i64 i = grid_start(); i < n; i += grid_step()) rows[i] = find_row(tree, targets[i]);
}

extern "C" __global__ void raw_weights(const control_t* control, const float* leaves, i64 n,
                                       double total, double* raw) {
    for (i64 i = grid_start(); i < n; i += grid_step())
        raw[i] = weight_of(control, leaves[i], total);
}

extern "C" __global__ void normalize(const double* raw, i64 n, double largest, float* weights) {
    for (i64 i = grid_start(); i < n; i += grid_step())
        weights[i] = normalized(raw[i], largest);
}

extern "C" __global__ void stale(const control_t* control, const i64* rows, const u64* tokens,
                                 i64 n, u8* found) {
    for (i64 i = grid_start(); i < n; i += grid_step())
        found[i] = is_stale(control, rows[i], tokens[i]);
}
