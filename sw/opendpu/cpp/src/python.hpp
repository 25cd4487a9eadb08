// SPDX-License-Identifier: Apache-2.0
// The Python side of the library: an interpreter, references, calls, and values both ways.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <any>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace opendpu {

// Holds the interpreter's lock; starts the interpreter where there is none.
class Gil {
 public:
  Gil();
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

// Lets other threads have the interpreter.
class Released {
 public:
  Released() : state_(PyEval_SaveThread()) {}
  ~Released() { PyEval_RestoreThread(state_); }
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;

 private:
  PyThreadState* state_;
};

// Owns a reference; made, copied and dropped with the lock held.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  Ref(const Ref& other) : object_(other.object_) { Py_XINCREF(object_); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }
  static Ref borrowed(PyObject* object) {
    Py_XINCREF(object);
    return Ref(object);
  }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }

 private:
  PyObject* object_ = nullptr;
};

// The new object; throws std::runtime_error with the type and text of Python's exception if there
// is none.
Ref checked(PyObject* made);

// What a function of the module vart.bridge returns.
Ref call(const char* function, std::initializer_list<PyObject*> arguments);
// What a method of an object returns.
Ref call(PyObject* object, const char* method, std::initializer_list<PyObject*> arguments);

std::string text(PyObject* value);
long long integer(PyObject* value);
// An item of a tuple or list; borrowed.
PyObject* item(PyObject* sequence, Py_ssize_t index);
Py_ssize_t length(PyObject* sequence);
std::vector<std::int32_t> integers(PyObject* sequence);

// A view of memory that is there as long as the view.
Ref view_of(std::uint64_t address, std::size_t size, std::shared_ptr<void> owner);

Ref string(const std::string& value);
Ref number(long long value);

// An attribute's value, by its type in the file ("int32", "map_string" ...).
std::any value_of(const std::string& kind, PyObject* object);
// The type in the file and the value for Python; throws std::invalid_argument for other C++ types.
std::pair<std::string, Ref> object_of(const std::any& value);

}  // namespace opendpu
