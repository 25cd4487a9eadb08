// SPDX-License-Identifier: Apache-2.0
// Null pointers and sizes that do not fit, where a program of its own errors would end: each is an
// exception, of which a line is printed.
#include <cstdint>
#include <functional>
#include <iostream>
#include <limits>
#include <string>
#include <utility>
#include <vart/mm/host_flat_tensor_buffer.hpp>
#include <vart/runner_ext.hpp>
#include <vart/runner_helper.hpp>
#include <vart/zero_copy_helper.hpp>
#include <vector>
#include <vitis/ai/graph_runner.hpp>
#include <xir/graph/graph.hpp>
#include <xrt.h>
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>

namespace {

// A buffer of a program's own, which may have no memory or no tensor.
class Own : public vart::TensorBuffer {
 public:
  Own(const xir::Tensor* tensor, void* memory) : TensorBuffer(tensor), memory_(memory) {}
  std::pair<std::uint64_t, std::size_t> data(const std::vector<std::int32_t>) override {
    return {reinterpret_cast<std::uint64_t>(memory_), 4096};
  }

 private:
  void* memory_;
};

void show(const std::string& name, const std::function<void()>& act) {
  try {
    act();
    std::cout << name << ": nothing happened" << std::endl;
  } catch (const std::exception& error) {
    std::cout << name << ": " << error.what() << std::endl;
  }
}

void of_buffers(vart::RunnerExt& runner) {
  const auto inputs = runner.get_inputs(), outputs = runner.get_outputs();
  const auto* tensor = runner.get_input_tensors().at(0);
  std::vector<char> memory(4096);
  Own nowhere(tensor, nullptr), nameless(nullptr, memory.data());
  show("input", [&] { runner.execute_async({nullptr}, outputs); });
  show("output", [&] { runner.execute_async(inputs, {nullptr, nullptr}); });
  show("tensor of an input", [&] { runner.execute_async({&nameless}, outputs); });
  show("memory of an input", [&] { runner.execute_async({&nowhere}, outputs); });
  show("copied from", [&] { vart::TensorBuffer::copy_tensor_buffer(nullptr, inputs[0]); });
  show("copied to", [&] { vart::TensorBuffer::copy_tensor_buffer(inputs[0], nullptr); });
  show("memory copied", [&] { vart::TensorBuffer::copy_tensor_buffer(&nowhere, inputs[0]); });
  show("tensor copied", [&] { vart::TensorBuffer::copy_tensor_buffer(&nameless, inputs[0]); });
  show("from host", [&] { inputs[0]->copy_from_host(0, nullptr, 4, 0); });
  show("to host", [&] { inputs[0]->copy_to_host(0, nullptr, 4, 0); });
  const auto far = std::numeric_limits<std::size_t>::max() - 4;
  show("offset", [&] { inputs[0]->copy_from_host(0, memory.data(), 10, far); });
}

void of_graphs(xir::Graph& graph, const std::string& file) {
  const auto other = xir::Graph::deserialize(file);
  const xir::DataType byte{xir::DataType::INT, 8};
  show("op", [&] { graph.remove_op(nullptr); });
  show("another graph's op", [&] { graph.remove_op(other->get_op("y")); });
  show("clone", [] { xir::Tensor::clone(nullptr); });
  show("buffer's tensor", [] { vart::alloc_cpu_flat_tensor_buffer(nullptr); });
  show("graph", [] { vitis::ai::GraphRunner::create_graph_runner(nullptr, nullptr); });
  show("subgraph", [] { vart::get_input_buffer_size(nullptr); });
  show("large", [&] {
    vart::alloc_cpu_flat_tensor_buffer(
        xir::Tensor::create("large", {2147483647, 2147483647}, byte).get());
  });
  show("file", [] { xir::Graph::deserialize("no\xff"); });
}

void of_objects() {
  xrt::bo object(xrt::device(0), 64, xrt::bo::flags::normal, 0);
  show("read", [&] { object.read(nullptr, 10, 0); });
  show("write", [&] { object.write(nullptr, 10, 0); });
  const auto device = xclOpen(0, nullptr, XCL_QUIET);
  const auto number = xclAllocBO(device, 64, 0, 0);
  std::cout << "xclWriteBO: " << static_cast<long>(xclWriteBO(device, number, nullptr, 8, 0))
            << std::endl;
  xclFreeBO(device, number);
  xclClose(device);
  xclClose(device);  // says so, and does nothing
  xclClose(nullptr);
  std::cout << "xclAllocBO: " << (xclAllocBO(device, 64, 0, 0) == NULLBO) << std::endl;
  const xir::Tensor* tensor = nullptr;
  show("input scale", [&] { vart::get_input_scale(tensor); });
  show("output scale", [&] { vart::get_output_scale(tensor); });
  show("input scales", [] { vart::get_input_scale(std::vector<const xir::Tensor*>{nullptr}); });
}

}  // namespace

int main(int, char* argv[]) {
  const auto graph = xir::Graph::deserialize(argv[1]);
  for (const auto* child : graph->get_root_subgraph()->children_topological_sort()) {
    if (child->get_attr<std::string>("device") != "DPU") continue;
    const auto runner = vart::RunnerExt::create_runner(child, nullptr);
    of_buffers(*runner);
  }
  of_graphs(*graph, argv[1]);
  of_objects();
}
