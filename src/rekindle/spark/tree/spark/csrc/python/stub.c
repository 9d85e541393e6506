#include <Python.h>

extern PyObject* spark_init_module(void);

PyMODINIT_FUNC PyInit__C(void) { return spark_init_module(); }
