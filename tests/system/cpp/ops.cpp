// SPDX-License-Identifier: Apache-2.0
// Custom ops; KIND chooses one: each parameter of calculate is of another form.
#include <vart/op_imp.h>

#ifdef PRELU  // any number of buffers in one argument, as of all op types outside the library
class MylayerOp {
 public:
  MylayerOp(const xir::Op* op1, xir::Attrs* attrs) : op{op1} { CHECK(attrs != nullptr); }
  int calculate(vart::simple_tensor_buffer_t<float> output,
                std::vector<vart::simple_tensor_buffer_t<float>> inputs) {
    CHECK_EQ(inputs.size(), 2u);
    const auto number = static_cast<size_t>(inputs[0].tensor->get_element_num());
    const auto slopes = static_cast<size_t>(inputs[1].tensor->get_element_num());
    CHECK_EQ(output.mem_size, number * sizeof(float));
    for (size_t i = 0; i < number; i++) {
      const float value = inputs[0].data[i];
      output.data[i] = value < 0 ? value * inputs[1].data[i % slopes] : value;
    }
    return 0;
  }

 public:
  const xir::Op* const op;
};
DEF_XIR_OP_IMP(MylayerOp)
#endif

#ifdef PRODUCT  // one, one and perhaps one
struct ProductOp : public vart::experimental::OpImpBase {
  ProductOp(xir::Op* op, xir::Attrs* attrs)  // as some of AMD's have it
      : vart::experimental::OpImpBase{op, attrs}, axis(op->get_attr<int>("axis")) {}
  int calculate(vart::simple_tensor_buffer_t<float> result,
                vart::simple_tensor_buffer_t<float> input,
                vart::simple_tensor_buffer_t<void> weights,
                std::unique_ptr<vart::simple_tensor_buffer_t<float>> bias) {
    const auto* factors = static_cast<const float*>(weights.data);
    result.data[0] = static_cast<float>(100 * axis) + (bias ? bias->data[0] : 0.0f);
    for (int i = 0; i < input.tensor->get_element_num(); ++i) {
      result.data[0] += input.data[i] * factors[i];
    }
    return result.data[0] < 0 ? 3 : 0;
  }
  int axis;
};
DEF_XIR_OP_IMP(ProductOp)
#endif

#ifdef PLAIN  // buffers as they are
class PlainOp : public vart::OpImp {
 public:
  PlainOp(const xir::Op* op, xir::Attrs*) : vart::OpImp(op), name_(op->get_name()) {
    if (name_ == "refused") throw std::runtime_error("not this op");
  }
  int calculate(const std::vector<vart::OpImpArg>& inputs, vart::TensorBuffer* output) override {
    if (inputs[0].arg_name != "input") throw std::runtime_error("another argument");
    const auto from = inputs[0].args[0]->data({0, 1}), to = output->data({0, 0});
    if (from.second != sizeof(float)) throw std::runtime_error("another size");
    std::memcpy(reinterpret_cast<void*>(to.first), reinterpret_cast<void*>(from.first), 4);
    return 0;
  }

 private:
  std::string name_;
};
extern "C" vart_op_imp_t vart_init_op_imp(const xir_op_t) {
  return vart::make_vart_opt_imp<PlainOp>();
}
#endif
