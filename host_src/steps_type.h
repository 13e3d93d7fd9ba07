// steps_type.h - `cpreplay._native.Steps`: the loops of steps.h on the pending steps of an n-step buffer.
#pragma once
#include "arrays.h"

#include "steps.h"

namespace host {

struct Steps {
    PyObject_HEAD
    PyObject* keep;
    nstep_t steps;
};

// Steps(n, n_envs, gamma, starts, counts, kept, rewards): kept has (pending, bytes, boolean) of
// each column of a first step, and then the same of next_obs, with None.
static PyObject* steps_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject *starts, *counts, *kept, *rewards;
    long long n, n_envs;
    double gamma;
    if (!PyArg_ParseTuple(args, "LLdOOO!O", &n, &n_envs, &gamma, &starts, &counts, &PyList_Type,
                          &kept, &rewards))
        return nullptr;
    Steps* self = new_object<Steps>(type);
    if (!self) return nullptr;
    nstep_t& s = self->steps;
    s.n = n;
    s.n_envs = n_envs;
    s.gamma = gamma;
    s.starts = (i64*)data_of(starts);
    s.counts = (i64*)data_of(counts);
    s.rewards = (const u32*)data_of(rewards);
    s.kept_columns = PyList_Size(kept) - 1;
    if (s.kept_columns > MAX_KEPT) {
        PyErr_SetString(PyExc_ValueError, "fewer columns are wanted");
        Py_DECREF(self);
        return nullptr;
    }
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
    self->keep = Py_NewRef(args);
    return (PyObject*)self;
}

static void steps_dealloc(PyObject* object) {
    Py_XDECREF(((Steps*)object)->keep);
    free_object(object);
}

static const u8* bytes_of(PyObject* array) { return array == Py_None ? nullptr : (const u8*)data_of(array); }

// A step's terminated and truncated flags and its mask, or None. What a call works on is its own: between
// two calls there may be another thread's.
static bool read_flags(PyObject* flags, nstep_t* s) {
    PyObject *terminated, *truncated, *mask;
    if (!PyArg_ParseTuple(flags, "OOO", &terminated, &truncated, &mask)) return false;
    s->terminated = bytes_of(terminated);
    s->truncated = bytes_of(truncated);
    s->mask = bytes_of(mask);
    return true;
}

// count(flags) -> how many windows the step completes.
static PyObject* steps_count(PyObject* object, PyObject* flags) {
    nstep_t s = ((Steps*)object)->steps;
    if (!read_flags(flags, &s)) return nullptr;
    return PyLong_FromLongLong(count_windows(s));
}

// append(flags, step, out) -> whether the step was taken and its windows written, which needs an `out` of
// just as many. Step has the kept columns and next_obs; out the same (None for the rewards), then reward,
// discount, terminated, truncated and valid.
static PyObject* steps_append(PyObject* object, PyObject* args) {
    nstep_t s = ((Steps*)object)->steps;
    PyObject *flags, *step, *out;
    if (!PyArg_ParseTuple(args, "O!O!O!", &PyTuple_Type, &flags, &PyTuple_Type, &step, &PyTuple_Type,
                          &out) ||
        !read_flags(flags, &s))
        return nullptr;
    for (i64 i = 0; i <= s.kept_columns; ++i) {
        kept_t& k = i < s.kept_columns ? s.kept[i] : s.next_obs;
        k.step = bytes_of(PyTuple_GetItem(step, i));
        k.out = (u8*)bytes_of(PyTuple_GetItem(out, i));
    }
    const i64 numbers = s.kept_columns + 1;
    PyObject* valid = PyTuple_GetItem(out, numbers + 4);
    if (count_windows(s) != PyArray_DIM((PyArrayObject*)valid, 0)) Py_RETURN_FALSE;
    s.reward = (u32*)bytes_of(PyTuple_GetItem(out, numbers));
    s.discount = (u32*)bytes_of(PyTuple_GetItem(out, numbers + 1));
    s.terminated_out = (u8*)bytes_of(PyTuple_GetItem(out, numbers + 2));
    s.truncated_out = (u8*)bytes_of(PyTuple_GetItem(out, numbers + 3));
    s.valid = (u8*)bytes_of(valid);
    append(s);
    Py_RETURN_TRUE;
}

static PyMethodDef steps_methods[] = {
    {"count", steps_count, METH_O, "How many windows a step completes."},
    {"append", steps_append, METH_VARARGS, "Keep a step, and write the windows that it completes."},
    {nullptr, nullptr, 0, nullptr},
};

static PyType_Slot steps_slots[] = {
    {Py_tp_new, (void*)steps_new},
    {Py_tp_dealloc, (void*)steps_dealloc},
    {Py_tp_methods, steps_methods},
    {Py_tp_doc, (void*)"The pending steps of one n-step buffer, on its arrays."},
    {0, nullptr},
};

static PyType_Spec steps_spec = {"cpreplay._native.Steps", sizeof(Steps), 0, Py_TPFLAGS_DEFAULT,
                          steps_slots};

}  // namespace host
