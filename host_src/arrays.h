// arrays.h - Python's objects, as the types of the module take them.
//
// The stable ABI of Python 3.11 is used, so one binary serves every later version.
#pragma once
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include <new>
#include <vector>

#include "cuda_on_host.h"

#include "common.cuh"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "records are little-endian; without compiled loops NumPy does their work"
#endif

namespace host {

// Below so many bytes a call keeps the GIL: to give it up and take it costs more.
const i64 KEEP_GIL_BYTES = 32 * 1024;

static inline void* data_of(PyObject* array) { return PyArray_DATA((PyArrayObject*)array); }

static inline bool is_array(PyObject* value) { return PyArray_CheckExact(value); }

// Gives up the GIL while it lives, if `wanted`. Where the interpreter has ended meanwhile, taking it again
// ends the thread, by unwinding through here.
struct without_gil_t {
    PyThreadState* state;
    explicit without_gil_t(bool wanted) : state(wanted ? PyEval_SaveThread() : nullptr) {}
    ~without_gil_t() noexcept(false) {
        if (state) PyEval_RestoreThread(state);
    }
};

// Room for at least so many; false with MemoryError set.
template <typename T>
static inline bool make_room(std::vector<T>* scratch, i64 count) {
    if ((i64)scratch->size() >= count) return true;
    try {
        scratch->resize((size_t)count);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
    return true;
}

static inline PyObject* wrong_arguments() {
    PyErr_SetString(PyExc_TypeError, "another number of arguments is wanted");
    return nullptr;
}

// An object of a type of ours, zeroed.
template <typename T>
static inline T* new_object(PyTypeObject* type) {
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return (T*)allocate(type, 0);
}

static inline void free_object(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

}  // namespace host
