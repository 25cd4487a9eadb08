// SPDX-License-Identifier: Apache-2.0
// Custom ops in shared libraries, called from Python: a small interface in C.
//
// The functions are called by ctypes with the interpreter's lock held, and return a message in
// `error` where they fail.
#include <cstring>
#include <stdexcept>

#include "graph.hpp"
#include "python.hpp"
#include "vart/op_imp.h"

namespace {

using opendpu::item;
using opendpu::length;

// Memory of Python.
class Borrowed : public vart::TensorBuffer {
 public:
  Borrowed(const xir::Tensor* tensor, std::uint64_t address) : TensorBuffer(tensor), address_(address) {}

  std::pair<std::uint64_t, std::size_t> data(const std::vector<std::int32_t> idx) override {
    const auto shape = tensor_->get_shape();
    std::int64_t element = 0;
    for (std::size_t i = 0; i < idx.size() && i < shape.size(); ++i) {
      element = element * shape[i] + idx[i];
    }
    const auto size = static_cast<std::uint64_t>(tensor_->get_data_size());
    const auto offset =
        static_cast<std::uint64_t>(element * tensor_->get_data_type().bit_width / 8);
    return {address_ + offset, static_cast<std::size_t>(size - offset)};
  }

 private:
  std::uint64_t address_;
};

// One op, the object of the library that computes it, and the graph that both look at.
struct CustomOp {
  std::unique_ptr<xir::Graph> graph;
  const xir::Op* op = nullptr;
  std::unique_ptr<xir::Attrs> attrs;
  vart_op_imp_t functions = {};
  void* object = nullptr;

  ~CustomOp() {
    if (object) functions.cleanup(object);
  }

  int calculate(PyObject* inputs, std::uint64_t output) {
    std::vector<std::unique_ptr<Borrowed>> buffers;
    const auto& arguments = op->get_opdef()->input_args();
    std::vector<std::vector<vart_tensor_buffer_t>> pointers(arguments.size());
    std::vector<vart_op_imp_input_t> given;
    Py_ssize_t number = 0;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      for (const auto* tensor : op->get_input_tensors(arguments[i].name)) {
        const auto address = static_cast<std::uint64_t>(opendpu::integer(item(inputs, number++)));
        buffers.push_back(std::make_unique<Borrowed>(tensor, address));
        pointers[i].push_back(static_cast<vart::TensorBuffer*>(buffers.back().get()));
      }
      given.push_back({arguments[i].name.c_str(), pointers[i].size(), pointers[i].data()});
    }
    Borrowed result(op->get_output_tensor(), output);
    opendpu::Released released;
    return functions.calculate(object, given.data(), given.size(),
                               static_cast<vart::TensorBuffer*>(&result));
  }
};

template <typename F>
bool told(char* error, std::size_t size, F work) {
  try {
    work();
    return true;
  } catch (const std::exception& caught) {
    std::strncpy(error, caught.what(), size - 1);
  } catch (...) {
    std::strncpy(error, "an exception of an unknown type", size - 1);
  }
  error[size - 1] = '\0';
  return false;
}

}  // namespace

extern "C" {

// Returns what computes an op (of Python) by the library's vart_init_op_imp, or nullptr.
void* opendpu_custom_op_open(vart_op_imp_t (*init)(const xir_op_t), PyObject* op, char* error,
                             std::size_t size) {
  auto made = std::make_unique<CustomOp>();
  const bool good = told(error, size, [&] {
    opendpu::Gil gil;
    made->graph = xir::Access::graph(opendpu::call(op, "get_graph", {}));
    made->op = made->graph->get_op(opendpu::text(opendpu::call(op, "get_name", {}).get()));
    if (!made->op) throw std::runtime_error("the op is not in its graph");
    made->attrs = xir::Attrs::create();
    auto* self = const_cast<xir::Op*>(made->op);
    made->functions = init(self);
    made->object = made->functions.init(self, made->attrs.get());
  });
  return good ? made.release() : nullptr;
}

// Computes an op from the addresses of its inputs, in order, into memory; 0 if that went well.
int opendpu_custom_op_calculate(void* custom_op, PyObject* inputs, std::uint64_t output,
                                char* error, std::size_t size) {
  int status = -1;
  told(error, size, [&] {
    opendpu::Gil gil;
    status = static_cast<CustomOp*>(custom_op)->calculate(inputs, output);
  });
  return status;
}

void opendpu_custom_op_close(void* custom_op) {
  opendpu::Gil gil;
  delete static_cast<CustomOp*>(custom_op);
}

}  // extern "C"
