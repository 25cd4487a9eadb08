// SPDX-License-Identifier: Apache-2.0
// Memory of C++ as Python sees it.
#include <new>

#include "python.hpp"

namespace opendpu {
namespace {

// An object that has nothing but memory, and keeps the memory's owner.
struct Memory {
  PyObject_HEAD
  char* address;
  Py_ssize_t size;
  std::shared_ptr<void> owner;
};

int fill(PyObject* self, Py_buffer* view, int flags) {
  auto* memory = reinterpret_cast<Memory*>(self);
  return PyBuffer_FillInfo(view, self, memory->address, memory->size, 0, flags);
}

void drop(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<Memory*>(self)->owner.~shared_ptr();
  type->tp_free(self);
  Py_DECREF(type);
}

PyTypeObject* memory_type() {  // with the interpreter's lock held, so that there is one
  static PyTypeObject* type = [] {
    static PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(fill)},
                                  {Py_tp_dealloc, reinterpret_cast<void*>(drop)},
                                  {0, nullptr}};
    static PyType_Spec spec = {"opendpu.Memory", sizeof(Memory), 0, Py_TPFLAGS_DEFAULT, slots};
    return reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&spec)).release());
  }();
  return type;
}

}  // namespace

Ref view_of(std::uint64_t address, std::size_t size, std::shared_ptr<void> owner) {
  PyTypeObject* type = memory_type();
  const Ref made = checked(type->tp_alloc(type, 0));
  auto* memory = reinterpret_cast<Memory*>(made.get());
  memory->address = reinterpret_cast<char*>(address);
  memory->size = static_cast<Py_ssize_t>(size);
  new (&memory->owner) std::shared_ptr<void>(std::move(owner));
  return checked(PyMemoryView_FromObject(made.get()));
}

}  // namespace opendpu
