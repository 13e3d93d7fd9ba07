// ring_type.h - `cpreplay._native.Ring`: the loops of a host buffer, on its arrays.
//
// `add`, `add_batch` and `update` return False where they meet anything but the plainest input, before they
// have changed anything; the NumPy code that they stand in for then does the call, and raises where there is
// something to raise. Draws and `store` are given what Python has looked at already.
#pragma once
#include "arrays.h"

#include <numpy/random/bitgen.h>

#include "draws.h"
#include "rows.h"
#include "updates.h"
#include "values.h"

namespace host {

// Updates of at most so many lanes keep the GIL; a lane costs some 20 ns.
const i64 KEEP_GIL_LANES = 512;

// Of an update, whose lanes are counted in 32 bits. Python refuses more.
const i64 MAX_LANES = 0x7fffffff;

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
    bitgen_t* words;      // null: Philox, or words that come with each call
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

// Ring(control, columns, storage, inputs, tree, settled, lock, snapshots, capsule, keep): the control block;
// columns_t; the storage arrays; (kind, type number, bytes, shape, lowest and highest int) of each column;
// tree_t and a counter, or None twice; the buffer's lock and list of snapshots; its generator's capsule, or
// None; and what else the addresses in these are of.
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
    if (PyArray_NBYTES((PyArrayObject*)control) != sizeof(control_t) ||
        PyArray_NBYTES((PyArrayObject*)columns) != sizeof(columns_t) ||
        (tree != Py_None && PyArray_NBYTES((PyArrayObject*)tree) != sizeof(tree_t))) {
        PyErr_SetString(PyExc_ValueError, "records of another size are wanted");
        Py_DECREF(self);
        return nullptr;
    }
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
    self->lock = lock;
    self->snapshots = snapshots;
    self->keep = Py_NewRef(args);
    return (PyObject*)self;
}

static void ring_dealloc(PyObject* object) {
    Ring* self = (Ring*)object;
    delete self->scratch;
    Py_XDECREF(self->keep);
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

// The arrays of a minibatch: columns, indices, weights and tokens. False: they are not as `Block.new` has
// made them, which NumPy lets a caller do.
static bool read_target(Ring* self, PyObject* arrays, target_t* target) {
    const i64 count = self->columns.count;
    if (!PyTuple_Check(arrays) || PyTuple_Size(arrays) != count + 3) return false;
    PyObject* indices = PyTuple_GetItem(arrays, count);
    if (!is_vector(indices, NPY_INT64, -1)) return false;
    const i64 lanes = target->lanes = PyArray_DIM((PyArrayObject*)indices, 0);
    target->indices = (i64*)room_in(indices, INDEX, lanes);
    bool fits = target->indices;
    for (i64 i = 0; i < count; ++i) {
        target->at[i] = room_in(PyTuple_GetItem(arrays, i), self->inputs[i], lanes);
        fits = fits && target->at[i];
    }
    target->weights = nullptr;
    target->tokens = nullptr;
    if (self->settled) {
        target->weights = (float*)room_in(PyTuple_GetItem(arrays, count + 1), WEIGHT, lanes);
        target->tokens = (u64*)room_in(PyTuple_GetItem(arrays, count + 2), TOKEN, lanes);
        fits = fits && target->weights && target->tokens;
    }
    return fits;
}

// accepts(arrays) -> whether a draw may fill them.
static PyObject* ring_accepts(PyObject* object, PyObject* arrays) {
    target_t target;
    return PyBool_FromLong(read_target((Ring*)object, arrays, &target));
}

static PyObject* not_accepted() {
    PyErr_SetString(PyExc_TypeError, "arrays that are accepted are wanted");
    return nullptr;
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

// Rows that have to get their leaves before the tree is looked at.
static i64 unsettled(const Ring* self) {
    return self->settled ? self->control->total - *self->settled : 0;
}

// sample(arrays, words): draws by the policy in force. Called under the lock.
static PyObject* ring_sample(PyObject* object, PyObject* const* args, Py_ssize_t count) {
    Ring* self = (Ring*)object;
    target_t target;
    const u64* words;
    if (count != 2) return wrong_arguments();
    if (!read_target(self, args[0], &target)) return not_accepted();
    if (target.weights && !make_room(&self->scratch->raw, target.lanes)) return nullptr;
    if (!words_for(self, args[1], target.lanes, &words)) return nullptr;
    {
        const without_gil_t without_gil(target.lanes * self->row_bytes > KEEP_GIL_BYTES ||
                                        unsettled(self) > KEEP_GIL_LANES);
        if (target.weights) {
            settle(self->control, self->tree, self->settled);
            sample_by_priority(self->control, self->tree, words, self->columns, self->storage,
                               target, self->scratch->raw.data());
        } else {
            draw_uniform(self->control, words, target);
            gather(self->columns, self->storage, target);
        }
        end_draw(self->control, true);
    }
    Py_RETURN_NONE;
}

// sample_range(arrays, words, low, high). Called under the lock.
static PyObject* ring_sample_range(PyObject* object, PyObject* const* args, Py_ssize_t count) {
    Ring* self = (Ring*)object;
    target_t target;
    const u64* words;
    if (count != 4) return wrong_arguments();
    const i64 low = PyLong_AsLongLong(args[2]), high = PyLong_AsLongLong(args[3]);
    if (PyErr_Occurred()) return nullptr;
    if (!read_target(self, args[0], &target)) return not_accepted();
    if (!words_for(self, args[1], target.lanes, &words)) return nullptr;
    {
        const without_gil_t without_gil(target.lanes * self->row_bytes > KEEP_GIL_BYTES);
        draw_in_range(self->control, words, low, high, target);
        gather(self->columns, self->storage, target);
        end_draw(self->control, false);
    }
    Py_RETURN_NONE;
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
    const bool is_double = is_vector(errors, NPY_FLOAT64, lanes);
    if (lanes < 1 || lanes > MAX_LANES || (!is_double && !is_vector(errors, NPY_FLOAT32, lanes))) Py_RETURN_FALSE;
    update_t update = {lanes, (const i64*)data_of(rows), nullptr, data_of(errors), is_double ? 8 : 4};
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
        const without_gil_t without_gil(lanes + unsettled(self) > KEEP_GIL_LANES);
        settle(self->control, self->tree, self->settled);
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
    {"accepts", ring_accepts, METH_O, "Whether a draw may fill these arrays."},
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
