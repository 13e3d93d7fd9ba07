// values.h - what a caller may hand to compiled code as it is, and what Python has to look at.
#pragma once
#include "arrays.h"

#include <cfloat>

#include "rows.h"

namespace host {

const int MAX_DIMS = 31;  // of a column

// What a column takes from a caller without a look by Python.
struct input_t {
    char kind;       // of the dtype: b, i, u, f
    int type;        // NumPy's number of it
    i64 itemsize;
    int ndim;
    i64 shape[MAX_DIMS];
    i64 low, high;   // integers that it holds exactly
};

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
    if (PyFloat_CheckExact(value) || PyArray_IsScalar(value, Double))
        return put_number(input, PyFloat_AsDouble(value), out);
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

static bool is_vector(PyObject* value, int type, i64 length) {
    PyArrayObject* array = (PyArrayObject*)value;
    return is_array(value) && PyArray_TYPE(array) == type && PyArray_ISCARRAY_RO(array) &&
           PyArray_NDIM(array) == 1 && (length < 0 || PyArray_DIM(array, 0) == length);
}

// Where an array lies that a draw may fill, with rows of a form, or null.
static u8* room_in(PyObject* value, const input_t& form, i64 rows) {
    PyArrayObject* array = (PyArrayObject*)value;
    const bool fits = is_array(value) && is_row_of(form, array, 1) &&
                      PyArray_DIM(array, 0) == rows && PyArray_ISCARRAY(array);
    return fits ? (u8*)PyArray_DATA(array) : nullptr;
}

// What a draw writes beside the columns.
static const input_t INDEX = {'i', NPY_INT64, 8, 0, {}, 0, 0};
static const input_t WEIGHT = {'f', NPY_FLOAT32, 4, 0, {}, 0, 0};
static const input_t TOKEN = {'i', NPY_INT32, 4, 1, {2}, 0, 0};

}  // namespace host
