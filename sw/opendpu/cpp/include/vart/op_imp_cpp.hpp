// SPDX-License-Identifier: Apache-2.0
// Custom ops as C++ classes; included by vart/op_imp.h.
//
// A class has a constructor (const xir::Op*, xir::Attrs*) and a member function
//   int calculate(vart::simple_tensor_buffer_t<R> output, A1 first, A2 second, ...)
// with one parameter an argument of the op type. Those are, of a buffer B = simple_tensor_buffer_t<T>:
//   B                             exactly one
//   std::unique_ptr<B>            one, or nullptr
//   std::vector<B>                any number
//   std::unique_ptr<std::vector<B>>  any number, nullptr for none
// Or it derives from vart::OpImp, whose calculate gets all buffers as they are.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "UniLog/UniLog.hpp"
#include "vart/runner.hpp"
#include "vart/simple_tensor_buffer.hpp"
#include "xir/op/op.hpp"

extern "C" void opendpu_custom_op_close(void* custom_op);

namespace vart {

namespace detail {
// Who calls a custom op finds its own functions in it, so it must need their library.
[[gnu::used]] static void (*const needed)(void*) = &opendpu_custom_op_close;
}  // namespace detail

// The buffers of one argument.
struct OpImpArg {
  std::string arg_name;
  std::vector<TensorBuffer*> args;
};

class OpImp {
 public:
  explicit OpImp(const xir::Op*) {}
  OpImp(const OpImp&) = delete;
  OpImp& operator=(const OpImp&) = delete;
  virtual ~OpImp() = default;

  virtual int calculate(const std::vector<OpImpArg>& inputs, TensorBuffer* output) = 0;
};

namespace detail {

inline std::vector<OpImpArg> arguments(vart_op_imp_input_t inputs[], std::size_t count) {
  std::vector<OpImpArg> found(count);
  for (std::size_t i = 0; i < count; ++i) {
    found[i].arg_name = inputs[i].arg_name;
    for (std::size_t j = 0; j < inputs[i].num_of_args; ++j) {
      found[i].args.push_back(static_cast<TensorBuffer*>(inputs[i].args[j]));
    }
  }
  return found;
}

template <typename T, typename Calculate>
vart_op_imp_t implementation(Calculate) {
  vart_op_imp_t made;
  made.init = [](const xir_op_t op, xir_attrs_t attrs) -> void* {
    return new T(static_cast<xir::Op*>(op), static_cast<xir::Attrs*>(attrs));
  };
  made.cleanup = [](void* self) { delete static_cast<T*>(self); };
  made.calculate = [](void* self, vart_op_imp_input_t inputs[], std::size_t count,
                      vart_tensor_buffer_t output) {
    return Calculate::call(static_cast<T*>(self), arguments(inputs, count),
                           static_cast<TensorBuffer*>(output));
  };
  return made;
}

// How one parameter is made of the buffers of its argument.
template <typename Parameter>
struct Converted;

template <typename T>
struct Converted<std::vector<simple_tensor_buffer_t<T>>> {
  static std::vector<simple_tensor_buffer_t<T>> of(const OpImpArg& given) {
    std::vector<simple_tensor_buffer_t<T>> made;
    for (auto* buffer : given.args) made.push_back(simple_tensor_buffer_t<T>::create(buffer));
    return made;
  }
};

template <typename T>
struct Converted<simple_tensor_buffer_t<T>> {
  static simple_tensor_buffer_t<T> of(const OpImpArg& given) {
    if (given.args.size() != 1) {
      throw std::invalid_argument("argument " + given.arg_name + " has " +
                                  std::to_string(given.args.size()) + " buffers, but takes one");
    }
    return simple_tensor_buffer_t<T>::create(given.args[0]);
  }
};

template <typename T>
struct Converted<std::unique_ptr<simple_tensor_buffer_t<T>>> {
  static std::unique_ptr<simple_tensor_buffer_t<T>> of(const OpImpArg& given) {
    if (given.args.empty()) return nullptr;
    return std::make_unique<simple_tensor_buffer_t<T>>(
        Converted<simple_tensor_buffer_t<T>>::of(given));
  }
};

template <typename T>
struct Converted<std::unique_ptr<std::vector<simple_tensor_buffer_t<T>>>> {
  using Many = std::vector<simple_tensor_buffer_t<T>>;
  static std::unique_ptr<Many> of(const OpImpArg& given) {
    if (given.args.empty()) return nullptr;
    return std::make_unique<Many>(Converted<Many>::of(given));
  }
};

template <typename T, typename R, typename... Parameters, std::size_t... Number>
int call(T* self, int (T::*function)(simple_tensor_buffer_t<R>, Parameters...),
         std::vector<OpImpArg> inputs, TensorBuffer* output, std::index_sequence<Number...>) {
  for (std::size_t i = sizeof...(Parameters); i < inputs.size(); ++i) {
    if (!inputs[i].args.empty()) {
      throw std::invalid_argument("calculate has no parameter for argument " + inputs[i].arg_name);
    }
  }
  inputs.resize(sizeof...(Parameters));
  return std::invoke(function, self, simple_tensor_buffer_t<R>::create(output),
                     Converted<Parameters>::of(inputs[Number])...);
}

template <typename T, typename R, typename... Parameters>
int typed(T* self, int (T::*function)(simple_tensor_buffer_t<R>, Parameters...),
          std::vector<OpImpArg> inputs, TensorBuffer* output) {
  return call(self, function, std::move(inputs), output,
              std::index_sequence_for<Parameters...>());
}

template <typename T>
struct CallTyped {
  static int call(T* self, std::vector<OpImpArg> inputs, TensorBuffer* output) {
    return typed(self, &T::calculate, std::move(inputs), output);
  }
};

template <typename T>
struct CallPlain {
  static int call(T* self, std::vector<OpImpArg> inputs, TensorBuffer* output) {
    return self->calculate(inputs, output);
  }
};

}  // namespace detail

template <typename T>
vart_op_imp_t make_vart_opt_imp() {
  return detail::implementation<T>(detail::CallPlain<T>());
}

namespace experimental {

template <typename T = void>
using simple_tensor_buffer_t = vart::simple_tensor_buffer_t<T>;

// For classes that have no more to say of themselves.
struct OpImpBase {
  OpImpBase(const xir::Op* op, xir::Attrs* attrs) : op(op), attrs(attrs) {}
  const xir::Op* const op;
  xir::Attrs* const attrs;
};

template <typename T>
vart_op_imp_t make_vart_opt_imp() {
  return detail::implementation<T>(detail::CallTyped<T>());
}

}  // namespace experimental
}  // namespace vart
