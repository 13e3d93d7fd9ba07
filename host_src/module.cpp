// module.cpp - `cpreplay._native`: the loops of ring.h on the arrays of a host buffer.
//
// Built on the stable ABI of Python 3.11, so one binary serves every later version. A method that
// meets anything but the plainest input returns False or -1 before it has changed anything; the
// NumPy code that it stands in for then does the call, and raises where there is something to raise.
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/random/bitgen.h>

#include <cfloat>
#include <vector>

#include "ring.h"

namespace {

// Below so many bytes a call keeps the GIL: to give it up and take it costs more.
const i64 KEEP_GIL_BYTES = 32 * 1024;

const int MAX_DIMS = 31;

// What a column takes from a caller without a look by Python.
struct input_t {
    char kind;       // of the dtype: b, i, u, f
    int type;        // NumPy's number of it
    i64 itemsize;
    int ndim;
    i64 shape[MAX_DIMS];
    i64 low, high;   // integers that it holds exactly
};

struct Ring {
    PyObject_HEAD
    PyObject* keep;       // everything that the pointers below lead to
    PyObject* lock;       // the buffer's
    PyObject* snapshots;  // a list: not empty while a save reads the rows
    control_t* control;
    i64* settled;         // rows ever written whose leaves are set; null without priorities
    bitgen_t* words;      // null: Philox
    columns_t columns;
    tree_t tree;
    ring::storage_t storage;
    input_t inputs[MAX_COLUMNS];
    i64 row_bytes;
    std::vector<u64>* drawn;
    std::vector<double>* raw;
    std::vector<i64>* rows;
    std::vector<float>* leaves;
    std::vector<u32>* slots;
};

PyObject* locked_name;

void* data_of(PyObject* array) { return PyArray_DATA((PyArrayObject*)array); }

bool is_array(PyObject* value) { return PyArray_CheckExact(value); }

// ---- construction

bool read_input(PyObject* spec, input_t* input) {
    const char* kind;
    PyObject* shape;
    long long itemsize, low, high;
    int type;
    if (!PyArg_ParseTuple(spec, "siLO!LL", &kind, &type, &itemsize, &PyTuple_Type, &shape, &low,
                          &high))
        return false;
    input->kind = kind[0];
    input->type = type;
    input->itemsize = itemsize;
    input->ndim = (int)PyTuple_Size(shape);
    input->low = low;
    input->high = high;
    if (input->ndim > MAX_DIMS) {
        PyErr_SetString(PyExc_ValueError, "too many axes");
        return false;
    }
    for (int i = 0; i < input->ndim; ++i) {
        input->shape[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
        if (PyErr_Occurred()) return false;
    }
    return true;
}

PyObject* ring_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject *control, *columns, *storage, *inputs, *tree, *settled, *lock, *snapshots, *capsule;
    PyObject* keep;
    if (!PyArg_ParseTuple(args, "OOO!O!OOOO!OO", &control, &columns, &PyList_Type, &storage,
                          &PyTuple_Type, &inputs, &tree, &settled, &lock, &PyList_Type, &snapshots,
                          &capsule, &keep))
        return nullptr;
    bitgen_t* words = nullptr;
    if (capsule != Py_None) {
        words = (bitgen_t*)PyCapsule_GetPointer(capsule, "BitGenerator");
        if (!words) return nullptr;
    }
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Ring* self = (Ring*)allocate(type, 0);
    if (!self) return nullptr;
    self->drawn = new std::vector<u64>;
    self->raw = new std::vector<double>;
    self->rows = new std::vector<i64>;
    self->leaves = new std::vector<float>;
    self->slots = new std::vector<u32>;
    self->words = words;
    self->control = (control_t*)data_of(control);
    memcpy(&self->columns, data_of(columns), sizeof self->columns);
    self->storage.count = PyList_Size(storage);
    for (i64 i = 0; i < self->storage.count; ++i) {
        PyArrayObject* array = (PyArrayObject*)PyList_GetItem(storage, i);
        self->storage.base[i] = (const u8*)PyArray_DATA(array);
        self->storage.stride[i] = (i64)PyArray_ITEMSIZE(array);
        self->row_bytes += self->storage.stride[i];
    }
    for (i64 i = 0; i < self->columns.count; ++i)
        if (!read_input(PyTuple_GetItem(inputs, i), &self->inputs[i])) {
            Py_DECREF(self);
            return nullptr;
        }
    if (tree != Py_None) {
        memcpy(&self->tree, data_of(tree), sizeof self->tree);
        self->settled = (i64*)data_of(settled);
    }
    Py_INCREF(lock);
    self->lock = lock;
    Py_INCREF(snapshots);
    self->snapshots = snapshots;
    self->keep = PyTuple_Pack(3, args, keep, capsule);
    if (!self->keep) {
        Py_DECREF(self);
        return nullptr;
    }
    return (PyObject*)self;
}

void ring_dealloc(PyObject* object) {
    Ring* self = (Ring*)object;
    delete self->drawn;
    delete self->raw;
    delete self->rows;
    delete self->leaves;
    delete self->slots;
    Py_XDECREF(self->keep);
    Py_XDECREF(self->lock);
    Py_XDECREF(self->snapshots);
    PyTypeObject* type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

// ---- adds

// Whether nobody else is at the buffer, which then stays so as long as the GIL is kept.
int is_free(Ring* self) {
    if (PyList_Size(self->snapshots)) return 0;
    PyObject* locked = PyObject_CallMethodObjArgs(self->lock, locked_name, nullptr);
    if (!locked) return -1;
    const int free = locked == Py_False;
    Py_DECREF(locked);
    return free;
}

bool is_row_of(const input_t& input, PyArrayObject* array, int first) {
    if (PyArray_TYPE(array) != input.type || !PyArray_ISCARRAY_RO(array) ||
        PyArray_NDIM(array) != input.ndim + first)
        return false;
    for (int i = 0; i < input.ndim; ++i)
        if (PyArray_DIM(array, i + first) != input.shape[i]) return false;
    return true;
}

// A float that its column holds, and that rounds to no subnormal one.
template <typename T>
bool put_float(double value, double largest, double smallest, u8* out) {
    const double size = fabs(value);
    if (!(size <= largest) || (size < smallest && size != 0.0)) return false;
    const T stored = (T)value;
    memcpy(out, &stored, sizeof stored);
    return true;
}

template <typename T>
bool put_integer(i64 value, u8* out) {
    const T stored = (T)value;
    memcpy(out, &stored, sizeof stored);
    return true;
}

bool put_number(const input_t& input, double value, u8* out) {
    if (input.kind != 'f') return false;
    if (input.itemsize == 4) return put_float<float>(value, FLT_MAX, FLT_MIN, out);
    if (input.itemsize == 8) return put_float<double>(value, DBL_MAX, DBL_MIN, out);
    return false;
}

bool put_whole(const input_t& input, i64 value, u8* out) {
    if (input.kind == 'b' || value < input.low || value > input.high) return false;
    if (input.kind == 'f') return put_number(input, (double)value, out);
    switch (input.itemsize) {
        case 1: return put_integer<signed char>(value, out);
        case 2: return put_integer<short>(value, out);
        case 4: return put_integer<i32>(value, out);
        case 8: return put_integer<i64>(value, out);
    }
    return false;
}

// One value of a row as its column stores it, in `out`, or from where it lies. False: not for here.
bool take_value(const input_t& input, const column_t& column, PyObject* value, u8* out,
                const u8** from) {
    *from = out;
    if (column.codec != QUANTIZED && input.kind != 'b' && is_array(value)) {
        PyArrayObject* array = (PyArrayObject*)value;
        if (!is_row_of(input, array, 0)) return false;
        *from = (const u8*)PyArray_DATA(array);
        return true;
    }
    if (input.ndim || column.codec == QUANTIZED) return false;
    if (PyBool_Check(value)) {
        if (input.kind != 'b') return false;
        *out = value == Py_True;
        return true;
    }
    if (PyFloat_Check(value)) return put_number(input, PyFloat_AsDouble(value), out);
    if (PyLong_CheckExact(value)) {
        int overflow;
        const i64 whole = PyLong_AsLongLongAndOverflow(value, &overflow);
        return !overflow && put_whole(input, whole, out);
    }
    if (PyArray_IsScalar(value, Bool)) {
        if (input.kind != 'b') return false;
        PyArray_ScalarAsCtype(value, out);
        return true;
    }
    if (PyArray_IsScalar(value, Float) && input.kind == 'f' && input.itemsize == 4) {
        float number;
        PyArray_ScalarAsCtype(value, &number);
        return put_number(input, (double)number, out);
    }
    if (sizeof(long) == 8 && PyArray_IsScalar(value, Long)) {
        long whole;
        PyArray_ScalarAsCtype(value, &whole);
        return put_whole(input, (i64)whole, out);
    }
    return false;
}

// add(values) -> whether the row was stored.
PyObject* ring_add(PyObject* object, PyObject* values) {
    Ring* self = (Ring*)object;
    const i64 count = self->columns.count;
    if (!PyTuple_Check(values) || PyTuple_Size(values) != count) Py_RETURN_FALSE;
    alignas(8) u8 numbers[MAX_COLUMNS][8];
    const u8* from[MAX_COLUMNS];
    for (i64 i = 0; i < count; ++i)
        if (!take_value(self->inputs[i], self->columns.at[i], PyTuple_GetItem(values, i),
                        numbers[i], &from[i]))
            Py_RETURN_FALSE;
    const int free = is_free(self);
    if (free < 0) return nullptr;
    if (!free) Py_RETURN_FALSE;
    const i64 head = ring_row(self->control, 0);
    for (i64 i = 0; i < count; ++i) {
        const column_t& c = self->columns.at[i];
        memmove(c.base + head * c.stride, from[i], (size_t)c.bytes);
    }
    self->control->total += 1;
    Py_RETURN_TRUE;
}

// Where the columns of a batch lie; its rows, or -1 where that is not for here.
i64 take_batch(Ring* self, PyObject* values, const u8** batch) {
    i64 rows = -1;
    for (i64 i = 0; i < self->columns.count; ++i) {
        PyObject* value = PyTuple_GetItem(values, i);
        if (!is_array(value)) return -1;
        PyArrayObject* array = (PyArrayObject*)value;
        if (PyArray_NDIM(array) < 1) return -1;
        if (i == 0) rows = PyArray_DIM(array, 0);
        if (PyArray_DIM(array, 0) != rows || !is_row_of(self->inputs[i], array, 1)) return -1;
        batch[i] = (const u8*)PyArray_DATA(array);
    }
    return rows;
}

// add_batch(values) -> whether the rows were stored.
PyObject* ring_add_batch(PyObject* object, PyObject* values) {
    Ring* self = (Ring*)object;
    if (!PyTuple_Check(values) || PyTuple_Size(values) != self->columns.count) Py_RETURN_FALSE;
    const u8* batch[MAX_COLUMNS];
    const i64 rows = take_batch(self, values, batch);
    // A large one is stored without the GIL, and so under the lock.
    if (rows < 1 || rows * self->row_bytes > KEEP_GIL_BYTES) Py_RETURN_FALSE;
    for (i64 i = 0; i < self->columns.count; ++i)
        if (self->columns.at[i].codec == QUANTIZED &&
            !ring::all_quantizable(self->columns.at[i], batch[i], rows))
            Py_RETURN_FALSE;
    const int free = is_free(self);
    if (free < 0) return nullptr;
    if (!free) Py_RETURN_FALSE;
    ring::store(self->control, self->columns, batch, rows);
    Py_RETURN_TRUE;
}

// store(columns, rows): arrays of the stored dtypes, contiguous; called under the lock.
PyObject* ring_store(PyObject* object, PyObject* args) {
    Ring* self = (Ring*)object;
    PyObject* arrays;
    long long rows;
    if (!PyArg_ParseTuple(args, "O!L", &PyList_Type, &arrays, &rows)) return nullptr;
    columns_t stored = self->columns;
    const u8* batch[MAX_COLUMNS];
    for (i64 i = 0; i < stored.count; ++i) {
        batch[i] = (const u8*)data_of(PyList_GetItem(arrays, i));
        if (stored.at[i].codec != QUANTIZED) continue;
        stored.at[i].bytes = stored.at[i].elements;  // codes already
        stored.at[i].codec = AS_IT_IS;
    }
    PyThreadState* state =
        rows * self->row_bytes > KEEP_GIL_BYTES ? PyEval_SaveThread() : nullptr;
    ring::store(self->control, stored, batch, rows);
    if (state) PyEval_RestoreThread(state);
    Py_RETURN_NONE;
}

// ---- draws

// The arrays of a batch, from its block of memory and the offsets in it: indices, weights and tokens
// (-1 without priorities), then the columns.
bool read_target(Ring* self, PyObject* block, PyObject* offsets, ring::target_t* target) {
    if (!PyArray_Check(block) || !PyArray_Check(offsets) ||
        PyArray_SIZE((PyArrayObject*)offsets) != 3 + self->columns.count) {
        PyErr_SetString(PyExc_TypeError, "a block of memory and its offsets are wanted");
        return false;
    }
    u8* const base = (u8*)data_of(block);
    const i64* const at = (const i64*)data_of(offsets);
    target->indices = (i64*)(base + at[0]);
    target->weights = at[1] < 0 ? nullptr : (float*)(base + at[1]);
    target->tokens = at[2] < 0 ? nullptr : (u64*)(base + at[2]);
    for (i64 i = 0; i < self->columns.count; ++i) target->at[i] = base + at[3 + i];
    return true;
}

// The words of a draw: those that were given, the generator's, or null for Philox.
const u64* words_for(Ring* self, PyObject* given, i64 lanes) {
    if (given != Py_None) return (const u64*)data_of(given);
    if (!self->words) return nullptr;
    self->drawn->resize((size_t)lanes);
    for (i64 i = 0; i < lanes; ++i) (*self->drawn)[i] = self->words->next_raw(self->words->state);
    return self->drawn->data();
}

// sample(block, offsets, lanes, words): draws by the policy in force. Called under the lock.
PyObject* ring_sample(PyObject* object, PyObject* args) {
    Ring* self = (Ring*)object;
    PyObject *block, *offsets, *given;
    long long lanes;
    if (!PyArg_ParseTuple(args, "OOLO", &block, &offsets, &lanes, &given)) return nullptr;
    ring::target_t target;
    if (!read_target(self, block, offsets, &target)) return nullptr;
    const u64* words = words_for(self, given, lanes);
    if (target.weights) self->raw->resize((size_t)lanes);
    PyThreadState* state =
        lanes * self->row_bytes > KEEP_GIL_BYTES ? PyEval_SaveThread() : nullptr;
    if (target.weights) {
        ring::settle(self->control, self->tree, *self->settled);
        *self->settled = self->control->total;
        ring::draw_prioritized(self->control, self->tree, words, target, lanes,
                               self->raw->data());
    } else {
        ring::draw_uniform(self->control, words, lanes, target.indices);
    }
    ring::gather(self->columns, self->storage, target, lanes);
    end_draw(self->control, true);
    if (state) PyEval_RestoreThread(state);
    Py_RETURN_NONE;
}

// sample_range(block, offsets, lanes, low, high, words). Called under the lock.
PyObject* ring_sample_range(PyObject* object, PyObject* args) {
    Ring* self = (Ring*)object;
    PyObject *block, *offsets, *given;
    long long lanes, low, high;
    if (!PyArg_ParseTuple(args, "OOLLLO", &block, &offsets, &lanes, &low, &high, &given))
        return nullptr;
    ring::target_t target;
    if (!read_target(self, block, offsets, &target)) return nullptr;
    const u64* words = words_for(self, given, lanes);
    PyThreadState* state =
        lanes * self->row_bytes > KEEP_GIL_BYTES ? PyEval_SaveThread() : nullptr;
    ring::draw_in_range(self->control, words, low, high, target, lanes);
    ring::gather(self->columns, self->storage, target, lanes);
    end_draw(self->control, false);
    if (state) PyEval_RestoreThread(state);
    Py_RETURN_NONE;
}

// ---- priorities

bool is_vector(PyObject* value, int type, i64 length) {
    PyArrayObject* array = (PyArrayObject*)value;
    return is_array(value) && PyArray_TYPE(array) == type && PyArray_ISCARRAY_RO(array) &&
           PyArray_NDIM(array) == 1 && (length < 0 || PyArray_DIM(array, 0) == length);
}

// update(rows, tokens, errors) -> whether it was done: int64 (B,), int32 (B, 2) or None, and float32 or
// float64 (B,). Called under the lock.
PyObject* ring_update(PyObject* object, PyObject* args) {
    Ring* self = (Ring*)object;
    PyObject *rows, *tokens, *errors;
    if (!PyArg_ParseTuple(args, "OOO", &rows, &tokens, &errors)) return nullptr;
    if (!is_vector(rows, NPY_INT64, -1)) Py_RETURN_FALSE;
    const i64 lanes = PyArray_DIM((PyArrayObject*)rows, 0);
    const bool wide = is_vector(errors, NPY_FLOAT64, lanes);
    if (lanes < 1 || (!wide && !is_vector(errors, NPY_FLOAT32, lanes))) Py_RETURN_FALSE;
    update_t update = {lanes, (const i64*)data_of(rows), nullptr, data_of(errors), wide ? 8 : 4};
    if (tokens != Py_None) {
        PyArrayObject* array = (PyArrayObject*)tokens;
        if (!is_array(tokens) || PyArray_TYPE(array) != NPY_INT32 ||
            !PyArray_ISCARRAY_RO(array) || PyArray_NDIM(array) != 2 ||
            PyArray_DIM(array, 0) != lanes || PyArray_DIM(array, 1) != 2)
            Py_RETURN_FALSE;
        update.tokens = (const u32*)PyArray_DATA(array);
    }
    self->rows->resize((size_t)lanes);
    self->leaves->resize((size_t)lanes);
    self->raw->resize((size_t)lanes);
    u64 slots = 16;
    while (slots < 2 * (u64)lanes) slots *= 2;
    self->slots->resize((size_t)slots);
    const ring::update_scratch_t scratch = {self->rows->data(), self->leaves->data(),
                                            self->raw->data(), self->slots->data(), slots};
    PyThreadState* state = lanes > 512 ? PyEval_SaveThread() : nullptr;
    ring::settle(self->control, self->tree, *self->settled);
    *self->settled = self->control->total;
    i64 counted = 0, stale = 0;
    double largest = 0.0;
    const bool good =
        ring::judge_all(self->control, self->tree, update, scratch, &counted, &stale, &largest);
    if (good) {
        self->control->stale_updates += stale;
        if (counted) ring::write_update(self->control, self->tree, scratch, counted, largest);
    }
    if (state) PyEval_RestoreThread(state);
    if (good) Py_RETURN_TRUE;
    Py_RETURN_FALSE;
}

// ---- n-step

struct Steps {
    PyObject_HEAD
    PyObject* keep;
    nstep_t steps;
};

// Steps(n, n_envs, gamma, starts, counts, kept, rewards, keep): kept has (pending, bytes, boolean) of
// each column of a first step, and then the same of next_obs, with None.
PyObject* steps_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject *starts, *counts, *kept, *rewards, *keep;
    long long n, n_envs;
    double gamma;
    if (!PyArg_ParseTuple(args, "LLdOOO!OO", &n, &n_envs, &gamma, &starts, &counts, &PyList_Type,
                          &kept, &rewards, &keep))
        return nullptr;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Steps* self = (Steps*)allocate(type, 0);
    if (!self) return nullptr;
    nstep_t& s = self->steps;
    s.n = n;
    s.n_envs = n_envs;
    s.gamma = gamma;
    s.starts = (i64*)data_of(starts);
    s.counts = (i64*)data_of(counts);
    s.rewards = (const u32*)data_of(rewards);
    s.kept_columns = PyList_Size(kept) - 1;
    for (i64 i = 0; i <= s.kept_columns; ++i) {
        kept_t& k = i < s.kept_columns ? s.kept[i] : s.next_obs;
        PyObject* pending;
        long long bytes;
        int boolean;
        if (!PyArg_ParseTuple(PyList_GetItem(kept, i), "OLp", &pending, &bytes, &boolean)) {
            Py_DECREF(self);
            return nullptr;
        }
        k.pending = pending == Py_None ? nullptr : (u8*)data_of(pending);
        k.bytes = bytes;
        k.boolean = boolean;
    }
    self->keep = PyTuple_Pack(2, args, keep);
    if (!self->keep) {
        Py_DECREF(self);
        return nullptr;
    }
    return (PyObject*)self;
}

void steps_dealloc(PyObject* object) {
    Py_XDECREF(((Steps*)object)->keep);
    PyTypeObject* type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

const u8* bytes_of(PyObject* array) { return array == Py_None ? nullptr : (const u8*)data_of(array); }

// count(terminated, truncated, mask) -> how many windows the step completes.
PyObject* steps_count(PyObject* object, PyObject* args) {
    nstep_t& s = ((Steps*)object)->steps;
    PyObject *terminated, *truncated, *mask;
    if (!PyArg_ParseTuple(args, "OOO", &terminated, &truncated, &mask)) return nullptr;
    s.terminated = bytes_of(terminated);
    s.truncated = bytes_of(truncated);
    s.mask = bytes_of(mask);
    return PyLong_FromLongLong(ring::count_windows(s));
}

// append(step, out): what count was given of is taken, and the windows are written. Step has the kept
// columns and next_obs; out the same (None for the rewards), then reward, discount, terminated, truncated
// and valid.
PyObject* steps_append(PyObject* object, PyObject* args) {
    nstep_t& s = ((Steps*)object)->steps;
    PyObject *step, *out;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &step, &PyTuple_Type, &out)) return nullptr;
    for (i64 i = 0; i <= s.kept_columns; ++i) {
        kept_t& k = i < s.kept_columns ? s.kept[i] : s.next_obs;
        k.step = bytes_of(PyTuple_GetItem(step, i));
        k.out = (u8*)bytes_of(PyTuple_GetItem(out, i));
    }
    const i64 numbers = s.kept_columns + 1;
    s.reward = (u32*)bytes_of(PyTuple_GetItem(out, numbers));
    s.discount = (u32*)bytes_of(PyTuple_GetItem(out, numbers + 1));
    s.terminated_out = (u8*)bytes_of(PyTuple_GetItem(out, numbers + 2));
    s.truncated_out = (u8*)bytes_of(PyTuple_GetItem(out, numbers + 3));
    s.valid = (u8*)bytes_of(PyTuple_GetItem(out, numbers + 4));
    ring::append(s);
    Py_RETURN_NONE;
}

// ---- the module

PyMethodDef ring_methods[] = {
    {"add", ring_add, METH_O, "Store a row, if its values are plain and the buffer is free."},
    {"add_batch", ring_add_batch, METH_O, "Store a small batch, likewise."},
    {"store", ring_store, METH_VARARGS, "Store rows of the stored dtypes."},
    {"sample", ring_sample, METH_VARARGS, "Draw by the policy in force, and gather."},
    {"sample_range", ring_sample_range, METH_VARARGS, "Draw from a range of rows, and gather."},
    {"update", ring_update, METH_VARARGS, "Give rows new priorities, if all lanes are good."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot ring_slots[] = {
    {Py_tp_new, (void*)ring_new},
    {Py_tp_dealloc, (void*)ring_dealloc},
    {Py_tp_methods, ring_methods},
    {Py_tp_doc, (void*)"The loops of one host buffer, on its arrays."},
    {0, nullptr},
};

PyType_Spec ring_spec = {"cpreplay._native.Ring", sizeof(Ring), 0, Py_TPFLAGS_DEFAULT, ring_slots};

PyMethodDef steps_methods[] = {
    {"count", steps_count, METH_VARARGS, "How many windows a step completes."},
    {"append", steps_append, METH_VARARGS, "Keep a step, and write the windows that it completes."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot steps_slots[] = {
    {Py_tp_new, (void*)steps_new},
    {Py_tp_dealloc, (void*)steps_dealloc},
    {Py_tp_methods, steps_methods},
    {Py_tp_doc, (void*)"The pending steps of one n-step buffer, on its arrays."},
    {0, nullptr},
};

PyType_Spec steps_spec = {"cpreplay._native.Steps", sizeof(Steps), 0, Py_TPFLAGS_DEFAULT,
                          steps_slots};

bool add_type(PyObject* module, const char* name, PyType_Spec* spec) {
    PyObject* type = PyType_FromSpec(spec);
    const bool added = type && PyModule_AddObjectRef(module, name, type) == 0;
    Py_XDECREF(type);
    return added;
}

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_native", "The loops of host buffers, compiled.", -1,
    nullptr,               nullptr,   nullptr,                                nullptr, nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__native() {
    import_array();
    locked_name = PyUnicode_InternFromString("locked");
    if (!locked_name) return nullptr;
    PyObject* self = PyModule_Create(&module);
    if (!self) return nullptr;
    if (!add_type(self, "Ring", &ring_spec) || !add_type(self, "Steps", &steps_spec)) {
        Py_DECREF(self);
        return nullptr;
    }
    return self;
}
