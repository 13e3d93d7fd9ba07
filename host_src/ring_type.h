// ring_type.h - `cpreplay._native.Ring`: the loops of a host buffer, on its arrays.
//
// A method that meets anything but the plainest input returns False before it has changed anything; the
// NumPy code that it stands in for then does the call, and raises where there is something to raise.
#pragma once
#include "arrays.h"

#include <numpy/random/bitgen.h>

#include <cfloat>

#include "draws.h"
#include "rows.h"
#include "updates.h"

namespace host {

const int MAX_DIMS = 31;  // of a column

// Updates of at most so many lanes keep the GIL; a lane costs some 20 ns.
const i64 KEEP_GIL_LANES = 512;

// What a column takes from a caller without a look by Python.
struct input_t {
    char kind;       // of the dtype: b, i, u, f
    int type;        // NumPy's number of it
    i64 itemsize;
    int ndim;
    i64 shape[MAX_DIMS];
    i64 low, high;   // integers that it holds exactly
};

// What calls work in, for as many lanes as the largest had.
struct scratch_t {
    std::vector<u64> drawn;   // a generator's words
    std::vector<double> raw;  // weights, or priorities
    std::vector<i64> rows;
    std::vector<i64> nodes;
    std::vector<u32> slots;
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
    storage_t storage;
    input_t inputs[MAX_COLUMNS];
    i64 row_bytes;
    scratch_t* scratch;
};

static PyObject* locked_name;

static bool make_names() {
    locked_name = PyUnicode_InternFromString("locked");
    return locked_name != nullptr;
}

// ---- construction

static bool read_input(PyObject* spec, input_t* input) {
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

static PyObject* ring_new(PyTypeObject* type, PyObject* args, PyObject*) {
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
    Ring* self = new_object<Ring>(type);
    if (!self) return nullptr;
    self->scratch = new (std::nothrow) scratch_t;
    if (!self->scratch) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    self->words = words;
    self->control = (control_t*)data_of(control);
    memcpy(&self->columns, data_of(columns), sizeof self->columns);
    self->storage.count = PyList_Size(storage);
    if (self->columns.count > MAX_COLUMNS || self->storage.count > MAX_COLUMNS ||
        PyTuple_Size(inputs) != self->columns.count) {
        PyErr_SetString(PyExc_ValueError, "another number of columns is wanted");
        Py_DECREF(self);
        return nullptr;
    }
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
    self->keep = Py_NewRef(args);
    return (PyObject*)self;
}

static void ring_dealloc(PyObject* object) {
    Ring* self = (Ring*)object;
    delete self->scratch;
    Py_XDECREF(self->keep);
    Py_XDECREF(self->lock);
    Py_XDECREF(self->snapshots);
    free_object(object);
}

// ---- adds

// Whether nobody else is at the buffer, which then stays so as long as the GIL is kept.
static int is_free(Ring* self) {
    if (PyList_Size(self->snapshots)) return 0;
    PyObject* locked = PyObject_CallMethodObjArgs(self->lock, locked_name, nullptr);
    if (!locked) return -1;
    const int free = locked == Py_False;
    Py_DECREF(locked);
    return free;
}

static bool is_row_of(const input_t& input, PyArrayObject* array, int first) {
    if (PyArray_TYPE(array) != input.type || !PyArray_ISCARRAY_RO(array) ||
        PyArray_NDIM(array) != input.ndim + first)
        return false;
    for (int i = 0; i < input.ndim; ++i)
        if (PyArray_DIM(array, i + first) != input.shape[i]) return false;
    return true;
}

// A float that its column holds, and that rounds to no subnormal one.
template <typename T>
static bool put_float(double value, double largest, double smallest, u8* out) {
    const double size = fabs(value);
    if (!(size <= largest) || (size < smallest && size != 0.0)) return false;
    const T stored = (T)value;
    memcpy(out, &stored, sizeof stored);
    return true;
}

template <typename T>
static bool put_integer(i64 value, u8* out) {
    const T stored = (T)value;
    memcpy(out, &stored, sizeof stored);
    return true;
}

static bool put_number(const input_t& input, double value, u8* out) {
    if (input.kind != 'f') return false;
    if (input.itemsize == 4) return put_float<float>(value, FLT_MAX, FLT_MIN, out);
    if (input.itemsize == 8) return put_float<double>(value, DBL_MAX, DBL_MIN, out);
    return false;
}

static bool put_whole(const input_t& input, i64 value, u8* out) {
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
static bool take_value(const input_t& input, const column_t& column, PyObject* value, u8* out,
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
static PyObject* ring_add(PyObject* object, PyObject* values) {
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
static i64 take_batch(Ring* self, PyObject* values, const u8** batch) {
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
static PyObject* ring_add_batch(PyObject* object, PyObject* values) {
    Ring* self = (Ring*)object;
    if (!PyTuple_Check(values) || PyTuple_Size(values) != self->columns.count) Py_RETURN_FALSE;
    const u8* batch[MAX_COLUMNS];
    const i64 rows = take_batch(self, values, batch);
    // A large one is stored without the GIL, and so under the lock.
    if (rows < 1 || rows * self->row_bytes > KEEP_GIL_BYTES) Py_RETURN_FALSE;
    for (i64 i = 0; i < self->columns.count; ++i)
        if (self->columns.at[i].codec == QUANTIZED &&
            !all_quantizable(self->columns.at[i], batch[i], rows))
            Py_RETURN_FALSE;
    const int free = is_free(self);
    if (free < 0) return nullptr;
    if (!free) Py_RETURN_FALSE;
    store(self->control, self->columns, self->storage, batch, rows);
    Py_RETURN_TRUE;
}

// store(columns, rows): arrays of the stored dtypes, contiguous; called under the lock.
static PyObject* ring_store(PyObject* object, PyObject* args) {
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
    {
        const without_gil_t without_gil(rows * self->row_bytes > KEEP_GIL_BYTES);
        store(self->control, stored, self->storage, batch, rows);
    }
    Py_RETURN_NONE;
}

// ---- draws

static bool is_vector(PyObject* value, int type, i64 length) {
    PyArrayObject* array = (PyArrayObject*)value;
    return is_array(value) && PyArray_TYPE(array) == type && PyArray_ISCARRAY_RO(array) &&
           PyArray_NDIM(array) == 1 && (length < 0 || PyArray_DIM(array, 0) == length);
}

// Where an array lies that a draw may fill with so many bytes, or null.
static u8* room_in(PyObject* value, i64 nbytes) {
    PyArrayObject* array = (PyArrayObject*)value;
    const bool fits = is_array(value) && PyArray_ISCARRAY(array) && PyArray_NBYTES(array) == nbytes;
    return fits ? (u8*)PyArray_DATA(array) : nullptr;
}

// The arrays of a minibatch as `Block.new` gave them: columns, indices, weights and tokens. False: they
// are not as they were made.
static bool read_target(Ring* self, PyObject* arrays, target_t* target) {
    const i64 count = self->columns.count;
    if (!PyTuple_Check(arrays) || PyTuple_Size(arrays) != count + 3) return false;
    PyObject* indices = PyTuple_GetItem(arrays, count);
    if (!is_vector(indices, NPY_INT64, -1)) return false;
    const i64 lanes = target->lanes = PyArray_DIM((PyArrayObject*)indices, 0);
    target->indices = (i64*)room_in(indices, lanes * 8);
    bool fits = target->indices;
    for (i64 i = 0; i < count; ++i) {
        target->at[i] = room_in(PyTuple_GetItem(arrays, i), lanes * self->columns.at[i].bytes);
        fits = fits && target->at[i];
    }
    target->weights = nullptr;
    target->tokens = nullptr;
    if (self->settled) {
        target->weights = (float*)room_in(PyTuple_GetItem(arrays, count + 1), lanes * 4);
        target->tokens = (u64*)room_in(PyTuple_GetItem(arrays, count + 2), lanes * 8);
        fits = fits && target->weights && target->tokens;
    }
    return fits;
}

// The words of a draw: those that were given, the generator's, or null for Philox. False with an error.
static bool words_for(Ring* self, PyObject* given, i64 lanes, const u64** words) {
    *words = nullptr;
    if (given != Py_None) {
        if (!is_vector(given, NPY_UINT64, lanes)) {
            PyErr_SetString(PyExc_TypeError, "a word a lane is wanted");
            return false;
        }
        *words = (const u64*)data_of(given);
    } else if (self->words) {
        if (!make_room(&self->scratch->drawn, lanes)) return false;
        u64* const drawn = self->scratch->drawn.data();
        for (i64 i = 0; i < lanes; ++i) drawn[i] = self->words->next_raw(self->words->state);
        *words = drawn;
    }
    return true;
}

// sample(arrays, words) -> whether it was done: draws by the policy in force. Called under the lock.
static PyObject* ring_sample(PyObject* object, PyObject* const* args, Py_ssize_t count) {
    Ring* self = (Ring*)object;
    target_t target;
    const u64* words;
    if (count != 2) return wrong_arguments();
    if (!read_target(self, args[0], &target)) Py_RETURN_FALSE;
    if (target.weights && !make_room(&self->scratch->raw, target.lanes)) return nullptr;
    if (!words_for(self, args[1], target.lanes, &words)) return nullptr;
    {
        const without_gil_t without_gil(target.lanes * self->row_bytes > KEEP_GIL_BYTES);
        if (target.weights) {
            settle(self->control, self->tree, *self->settled);
            *self->settled = self->control->total;
            sample_by_priority(self->control, self->tree, words, self->columns, self->storage,
                               target, self->scratch->raw.data());
        } else {
            draw_uniform(self->control, words, target);
            gather(self->columns, self->storage, target);
        }
        end_draw(self->control, true);
    }
    Py_RETURN_TRUE;
}

// sample_range(arrays, words, low, high) -> whether it was done. Called under the lock.
static PyObject* ring_sample_range(PyObject* object, PyObject* const* args, Py_ssize_t count) {
    Ring* self = (Ring*)object;
    target_t target;
    const u64* words;
    if (count != 4) return wrong_arguments();
    const i64 low = PyLong_AsLongLong(args[2]), high = PyLong_AsLongLong(args[3]);
    if (PyErr_Occurred()) return nullptr;
    if (!read_target(self, args[0], &target)) Py_RETURN_FALSE;
    if (!words_for(self, args[1], target.lanes, &words)) return nullptr;
    {
        const without_gil_t without_gil(target.lanes * self->row_bytes > KEEP_GIL_BYTES);
        draw_in_range(self->control, words, low, high, target);
        gather(self->columns, self->storage, target);
        end_draw(self->control, false);
    }
    Py_RETURN_TRUE;
}

// ---- priorities

// update(rows, tokens, errors) -> whether it was done: int64 (B,), int32 (B, 2) or None, and float32 or
// float64 (B,). Called under the lock.
static PyObject* ring_update(PyObject* object, PyObject* args) {
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
    scratch_t& scratch = *self->scratch;
    u64 slots = 16;
    while (slots < 2 * (u64)lanes) slots *= 2;
    if (!(make_room(&scratch.rows, lanes) && make_room(&scratch.nodes, lanes) &&
          make_room(&scratch.raw, lanes) && make_room(&scratch.slots, (i64)slots)))
        return nullptr;
    const update_scratch_t work = {scratch.rows.data(), scratch.nodes.data(), scratch.raw.data(),
                                   scratch.slots.data(), slots};
    bool good;
    {
        const without_gil_t without_gil(lanes > KEEP_GIL_LANES);
        settle(self->control, self->tree, *self->settled);
        *self->settled = self->control->total;
        const judgement_t found = judge_all(self->control, update, work);
        good = found.is_good;
        if (good) write_all(self->control, self->tree, work, found);
    }
    if (good) Py_RETURN_TRUE;
    Py_RETURN_FALSE;
}

static PyMethodDef ring_methods[] = {
    {"add", ring_add, METH_O, "Store a row, if its values are plain and the buffer is free."},
    {"add_batch", ring_add_batch, METH_O, "Store a small batch, likewise."},
    {"store", ring_store, METH_VARARGS, "Store rows of the stored dtypes."},
    {"sample", (PyCFunction)(void*)ring_sample, METH_FASTCALL, "Draw by the policy in force, and gather."},
    {"sample_range", (PyCFunction)(void*)ring_sample_range, METH_FASTCALL, "Draw from a range of rows, and gather."},
    {"update", ring_update, METH_VARARGS, "Give rows new priorities, if all lanes are good."},
    {nullptr, nullptr, 0, nullptr},
};

static PyType_Slot ring_slots[] = {
    {Py_tp_new, (void*)ring_new},
    {Py_tp_dealloc, (void*)ring_dealloc},
    {Py_tp_methods, ring_methods},
    {Py_tp_doc, (void*)"The loops of one host buffer, on its arrays."},
    {0, nullptr},
};

static PyType_Spec ring_spec = {"cpreplay._native.Ring", sizeof(Ring), 0, Py_TPFLAGS_DEFAULT, ring_slots};

}  // namespace host
