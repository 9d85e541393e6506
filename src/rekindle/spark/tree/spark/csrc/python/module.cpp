// The Python binding. As in PyTorch it is a library of its own; the extension module _C is a stub that calls it.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <vector>

#include "core/spark.h"
#include "ember.h"

#if defined(SPARK_WITH_CUDA)
extern "C" {
int spark_cuda_devices();
const char* spark_cuda_arch_list();
const char* spark_cuda_axpy(float a, const float* x, const float* y, float* out, std::size_t n);
}
#endif

namespace {

bool read_floats(PyObject* source, std::vector<float>* out) {
  PyObject* items = PySequence_Fast(source, "a sequence of numbers is needed");
  if (!items) return false;
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(items);
  out->reserve(static_cast<std::size_t>(size));
  for (Py_ssize_t i = 0; i < size; ++i) {
    const double value = PyFloat_AsDouble(PySequence_Fast_GET_ITEM(items, i));
    if (PyErr_Occurred()) {
      Py_DECREF(items);
      return false;
    }
    out->push_back(static_cast<float>(value));
  }
  Py_DECREF(items);
  return true;
}

PyObject* write_floats(const std::vector<float>& values) {
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(values.size()));
  if (!list) return nullptr;
  for (std::size_t i = 0; i < values.size(); ++i) {
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), PyFloat_FromDouble(values[i]));
  }
  return list;
}

bool read_axpy(PyObject* args, float* a, std::vector<float>* x, std::vector<float>* y) {
  PyObject *px, *py;
  if (!PyArg_ParseTuple(args, "fOO", a, &px, &py) || !read_floats(px, x) || !read_floats(py, y)) return false;
  if (x->size() != y->size()) {
    PyErr_SetString(PyExc_ValueError, "x and y differ in length");
    return false;
  }
  return true;
}

PyObject* axpy(PyObject*, PyObject* args) {
  float a;
  std::vector<float> x, y;
  if (!read_axpy(args, &a, &x, &y)) return nullptr;
  std::vector<float> out(x.size());
  spark::kernels().axpy(a, x.data(), y.data(), out.data(), x.size());
  return write_floats(out);
}

PyObject* cuda_axpy(PyObject*, PyObject* args) {
#if defined(SPARK_WITH_CUDA)
  float a;
  std::vector<float> x, y;
  if (!read_axpy(args, &a, &x, &y)) return nullptr;
  std::vector<float> out(x.size());
  if (const char* error = spark_cuda_axpy(a, x.data(), y.data(), out.data(), x.size())) {
    PyErr_Format(PyExc_RuntimeError, "CUDA error: %s", error);
    return nullptr;
  }
  return write_floats(out);
#else
  (void)args;
  PyErr_SetString(PyExc_RuntimeError, "spark was built without CUDA");
  return nullptr;
#endif
}

PyObject* dot(PyObject*, PyObject* args) {
  PyObject *px, *py;
  std::vector<float> x, y;
  if (!PyArg_ParseTuple(args, "OO", &px, &py) || !read_floats(px, &x) || !read_floats(py, &y)) return nullptr;
  if (x.size() != y.size()) {
    PyErr_SetString(PyExc_ValueError, "x and y differ in length");
    return nullptr;
  }
  return PyFloat_FromDouble(spark::kernels().dot(x.data(), y.data(), x.size()));
}

PyObject* checksum(PyObject*, PyObject* source) {
  std::vector<float> x;
  if (!read_floats(source, &x)) return nullptr;
  return PyLong_FromUnsignedLongLong(spark::checksum(x.data(), x.size()));
}

PyObject* apply_op(PyObject*, PyObject* args) {
  int which;
  double x;
  if (!PyArg_ParseTuple(args, "id", &which, &x)) return nullptr;
  if (which < 0 || which >= spark::op_count()) {
    PyErr_Format(PyExc_IndexError, "there are %d operators", spark::op_count());
    return nullptr;
  }
  return PyFloat_FromDouble(spark::apply_op(which, x));
}

PyObject* op_count(PyObject*, PyObject*) { return PyLong_FromLong(spark::op_count()); }

PyObject* ember(PyObject*, PyObject* size) {
  const unsigned long bytes = PyLong_AsUnsignedLong(size);
  if (PyErr_Occurred()) return nullptr;
  void* block = ember_allocate(bytes);
  const bool got = block != nullptr;
  ember_release(block);
  return PyBool_FromLong(got);
}

PyObject* config(PyObject*, PyObject*) { return PyUnicode_FromString(spark::config()); }

PyObject* cpu_capability(PyObject*, PyObject*) { return PyUnicode_FromString(spark::kernels().capability); }

PyObject* cuda_devices(PyObject*, PyObject*) {
#if defined(SPARK_WITH_CUDA)
  return PyLong_FromLong(spark_cuda_devices());
#else
  return PyLong_FromLong(0);
#endif
}

PyObject* cuda_arch_list(PyObject*, PyObject*) {
#if defined(SPARK_WITH_CUDA)
  return PyUnicode_FromString(spark_cuda_arch_list());
#else
  return PyUnicode_FromString("");
#endif
}

PyMethodDef methods[] = {
    {"axpy", axpy, METH_VARARGS, nullptr},
    {"dot", dot, METH_VARARGS, nullptr},
    {"checksum", checksum, METH_O, nullptr},
    {"apply_op", apply_op, METH_VARARGS, nullptr},
    {"op_count", op_count, METH_NOARGS, nullptr},
    {"ember", ember, METH_O, nullptr},
    {"config", config, METH_NOARGS, nullptr},
    {"cpu_capability", cpu_capability, METH_NOARGS, nullptr},
    {"cuda_devices", cuda_devices, METH_NOARGS, nullptr},
    {"cuda_arch_list", cuda_arch_list, METH_NOARGS, nullptr},
    {"cuda_axpy", cuda_axpy, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "spark._C", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

extern "C" SPARK_API PyObject* spark_init_module(void) { return PyModule_Create(&module); }
