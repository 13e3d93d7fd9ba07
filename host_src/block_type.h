// block_type.h - `cpreplay._native.Block`: the arrays of a minibatch of one size, in one piece of memory.
#pragma once
#include "arrays.h"

#include "rows.h"

namespace host {

// Columns, indices, weights and tokens.
const i64 MAX_ARRAYS = MAX_COLUMNS + 3;
const int MAX_BATCH_DIMS = 32;

struct member_t {
    PyArray_Descr* dtype;  // null: None stands in its place
    i64 offset;
    int ndim;
    npy_intp shape[MAX_BATCH_DIMS];
};

struct Block {
    PyObject_HEAD
    i64 nbytes;
    i64 count;
    member_t members[MAX_ARRAYS];
};

static bool read_member(PyObject* spec, member_t* member) {
    PyObject *dtype, *shape;
    long long offset;
    if (!PyArg_ParseTuple(spec, "LOO!", &offset, &dtype, &PyTuple_Type, &shape)) return false;
    const Py_ssize_t ndim = PyTuple_Size(shape);
    if (ndim > MAX_BATCH_DIMS || !PyArray_DescrCheck(dtype)) {
        PyErr_SetString(PyExc_TypeError, "an offset, a dtype and a shape are wanted");
        return false;
    }
    for (Py_ssize_t i = 0; i < ndim; ++i) {
        member->shape[i] = PyLong_AsSsize_t(PyTuple_GetItem(shape, i));
        if (PyErr_Occurred()) return false;
    }
    member->offset = offset;
    member->ndim = (int)ndim;
    Py_INCREF(dtype);
    member->dtype = (PyArray_Descr*)dtype;
    return true;
}

// Block(nbytes, members): (offset, dtype, shape) of each array, or None.
static PyObject* block_new(PyTypeObject* type, PyObject* args, PyObject*) {
    long long nbytes;
    PyObject* members;
    if (!PyArg_ParseTuple(args, "LO!", &nbytes, &PyTuple_Type, &members)) return nullptr;
    if (PyTuple_Size(members) > MAX_ARRAYS) {
        PyErr_SetString(PyExc_ValueError, "too many arrays");
        return nullptr;
    }
    Block* self = new_object<Block>(type);
    if (!self) return nullptr;
    self->nbytes = nbytes;
    for (Py_ssize_t i = 0; i < PyTuple_Size(members); ++i) {
        PyObject* member = PyTuple_GetItem(members, i);
        if (member != Py_None && !read_member(member, &self->members[i])) {
            Py_DECREF(self);
            return nullptr;
        }
        ++self->count;
    }
    return (PyObject*)self;
}

static void block_dealloc(PyObject* object) {
    Block* self = (Block*)object;
    for (member_t& member : self->members) Py_XDECREF((PyObject*)member.dtype);
    free_object(object);
}

static PyObject* new_member(const member_t& member, PyObject* memory, u8* base) {
    if (!member.dtype) return Py_NewRef(Py_None);
    Py_INCREF((PyObject*)member.dtype);  // which the next call takes
    PyObject* array =
        PyArray_NewFromDescr(&PyArray_Type, member.dtype, member.ndim, (npy_intp*)member.shape,
                             nullptr, base + member.offset, NPY_ARRAY_CARRAY, nullptr);
    if (!array) return nullptr;
    if (PyArray_SetBaseObject((PyArrayObject*)array, Py_NewRef(memory)) < 0) {
        Py_DECREF(array);
        return nullptr;
    }
    return array;
}

// new() -> the arrays, uninitialised, in memory that begins on a cache line.
static PyObject* block_arrays(PyObject* object, PyObject*) {
    Block* self = (Block*)object;
    npy_intp nbytes = self->nbytes + LINE;
    PyObject* memory = PyArray_SimpleNew(1, &nbytes, NPY_UINT8);
    if (!memory) return nullptr;
    const u64 address = (u64)data_of(memory);
    u8* const base = (u8*)((address + LINE - 1) / LINE * LINE);
    PyObject* arrays = PyTuple_New(self->count);
    for (i64 i = 0; arrays && i < self->count; ++i) {
        PyObject* array = new_member(self->members[i], memory, base);
        if (!array)
            Py_CLEAR(arrays);
        else
            PyTuple_SetItem(arrays, i, array);
    }
    Py_DECREF(memory);
    return arrays;
}

static PyMethodDef block_methods[] = {
    {"new", block_arrays, METH_NOARGS, "Fresh arrays, uninitialised."},
    {nullptr, nullptr, 0, nullptr},
};

static PyType_Slot block_slots[] = {
    {Py_tp_new, (void*)block_new},
    {Py_tp_dealloc, (void*)block_dealloc},
    {Py_tp_methods, block_methods},
    {Py_tp_doc, (void*)"The arrays of a minibatch of one size."},
    {0, nullptr},
};

static PyType_Spec block_spec = {"cpreplay._native.Block", sizeof(Block), 0, Py_TPFLAGS_DEFAULT,
                                 block_slots};

}  // namespace host
