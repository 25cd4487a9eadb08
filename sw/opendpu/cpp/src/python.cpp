// SPDX-License-Identifier: Apache-2.0
// The embedded interpreter and calls into it.
#include "python.hpp"

#include <cstdlib>
#include <mutex>
#include <stdexcept>

namespace opendpu {
namespace {

// The interpreter of the environment that this library was built for, so that its packages are
// found; OPENDPU_PYTHON names another.
void start() {
  if (Py_IsInitialized()) return;  // the program is Python, and has loaded this library
  const char* wanted = std::getenv("OPENDPU_PYTHON");
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.install_signal_handlers = 0;
  PyStatus status = PyConfig_SetBytesString(&config, &config.program_name,
                                            wanted ? wanted : OPENDPU_PYTHON_EXECUTABLE);
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status)) {
    throw std::runtime_error(std::string("Python cannot be started: ") +
                             (status.err_msg ? status.err_msg : "unknown reason"));
  }
  PyObject* path = PySys_GetObject("path");  // behind all others, for trees that are not installed
  for (const char* folder : {OPENDPU_PYTHON_PATHS}) {
    PyObject* entry = PyUnicode_DecodeFSDefault(folder);
    if (entry && path) PyList_Append(path, entry);
    Py_XDECREF(entry);
  }
  PyErr_Clear();
  PyEval_SaveThread();
}

std::once_flag started;

// A text with the bytes of C++ that it was made of, though they be no UTF-8.
std::string bytes_of(PyObject* text, const char* otherwise) {
  Ref made(text ? PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape") : nullptr);
  return made.get() ? PyBytes_AsString(made.get()) : otherwise;
}

}  // namespace

Gil::Gil() {
  std::call_once(started, start);
  state_ = PyGILState_Ensure();
}

Ref checked(PyObject* made) {
  if (made) return Ref(made);
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  Ref kind(type), error(value), where(trace);
  std::string message = "an unknown error of Python";
  if (type && value) {
    Ref name(PyObject_GetAttrString(type, "__name__"));
    Ref said(PyObject_Str(value));
    message = bytes_of(name.get(), "error") + ": " + bytes_of(said.get(), "");
  }
  PyErr_Clear();
  throw std::runtime_error(message);
}

namespace {

Ref call_object(PyObject* callable, std::initializer_list<PyObject*> arguments) {
  Ref tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(arguments.size())));
  Py_ssize_t index = 0;
  for (PyObject* argument : arguments) {
    Py_INCREF(argument);
    PyTuple_SET_ITEM(tuple.get(), index++, argument);
  }
  return checked(PyObject_CallObject(callable, tuple.get()));
}

}  // namespace

Ref call(const char* function, std::initializer_list<PyObject*> arguments) {
  Ref module = checked(PyImport_ImportModule("vart.bridge"));
  Ref callable = checked(PyObject_GetAttrString(module.get(), function));
  return call_object(callable.get(), arguments);
}

Ref call(PyObject* object, const char* method, std::initializer_list<PyObject*> arguments) {
  Ref callable = checked(PyObject_GetAttrString(object, method));
  return call_object(callable.get(), arguments);
}

std::string text(PyObject* value) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(value, &size);
  if (!bytes) checked(nullptr);
  return {bytes, static_cast<std::size_t>(size)};
}

long long integer(PyObject* value) {
  const long long found = PyLong_AsLongLong(value);
  if (found == -1 && PyErr_Occurred()) checked(nullptr);
  return found;
}

PyObject* item(PyObject* sequence, Py_ssize_t index) {
  PyObject* found = PyTuple_Check(sequence) ? PyTuple_GetItem(sequence, index)
                                            : PyList_GetItem(sequence, index);
  if (!found) checked(nullptr);
  return found;
}

Py_ssize_t length(PyObject* sequence) {
  const Py_ssize_t found = PyObject_Length(sequence);
  if (found < 0) checked(nullptr);
  return found;
}

std::vector<std::int32_t> integers(PyObject* sequence) {
  std::vector<std::int32_t> made;
  for (Py_ssize_t i = 0; i < length(sequence); ++i) {
    made.push_back(static_cast<std::int32_t>(integer(item(sequence, i))));
  }
  return made;
}

Ref string(const std::string& value) {
  return checked(PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()),
                                      "surrogateescape"));
}

Ref number(long long value) { return checked(PyLong_FromLongLong(value)); }

}  // namespace opendpu
