// module.cpp - `cpreplay._native`: host loops for buffers in NumPy arrays.
//
// To be read in this order: cuda_on_host.h, rows.h, tree.h, draws.h, updates.h, then wide.h, and the types.
// The reasons are in docs/design.md.
#include "arrays.h"

#include "block_type.h"
#include "ring_type.h"
#include "steps_type.h"

namespace {

// has_wide() -> whether this processor has what wide loops need.
PyObject* has_wide(PyObject*, PyObject*) { return PyBool_FromLong(host::wide_loops() != nullptr); }

// use_wide(wanted) -> whether wide loops were in use. For tests: the plain ones have the same results.
PyObject* use_wide(PyObject*, PyObject* wanted) {
    const host::loops_t* wide = host::wide_loops();
    const bool before = host::loops == wide;
    const int is_wanted = PyObject_IsTrue(wanted);
    if (is_wanted < 0) return nullptr;
    host::loops = is_wanted && wide ? wide : &host::PLAIN_LOOPS;
    return PyBool_FromLong(before);
}

// estimate_powers(bases, exponent): float64, four at a time, in their place; of wide loops. For tests.
PyObject* estimate_powers(PyObject*, PyObject* args) {
    PyObject* bases;
    double exponent;
    if (!PyArg_ParseTuple(args, "O!d", &PyArray_Type, &bases, &exponent)) return nullptr;
#if HAS_WIDE
    if (host::wide::is_supported()) {
        host::wide::estimate_powers((double*)host::data_of(bases),
                                    PyArray_SIZE((PyArrayObject*)bases), exponent);
        Py_RETURN_NONE;
    }
#endif
    PyErr_SetString(PyExc_NotImplementedError, "there are no wide loops here");
    return nullptr;
}

PyMethodDef functions[] = {
    {"has_wide", has_wide, METH_NOARGS, "Whether this processor has what wide loops need."},
    {"estimate_powers", estimate_powers, METH_VARARGS, "Powers, as wide loops estimate them."},
    {"use_wide", use_wide, METH_O, "Choose the wide loops or the plain ones, which work alike."},
    {nullptr, nullptr, 0, nullptr},
};

bool add_type(PyObject* module, const char* name, PyType_Spec* spec) {
    PyObject* type = PyType_FromSpec(spec);
    const bool added = type && PyModule_AddObjectRef(module, name, type) == 0;
    Py_XDECREF(type);
    return added;
}

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_native", "Host loops, compiled.", -1,
    functions,             nullptr,   nullptr,                 nullptr, nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__native() {
    import_array();
    if (!host::make_names()) return nullptr;
    PyObject* self = PyModule_Create(&module);
    if (!self) return nullptr;
    if (!add_type(self, "Block", &host::block_spec) || !add_type(self, "Ring", &host::ring_spec) ||
        !add_type(self, "Steps", &host::steps_spec)) {
        Py_DECREF(self);
        return nullptr;
    }
    return self;
}
