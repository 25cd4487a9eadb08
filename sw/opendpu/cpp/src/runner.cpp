// SPDX-License-Identifier: Apache-2.0
// Runners: those of Python behind VART's classes.
#include <algorithm>
#include <iostream>
#include <stdexcept>

#include "graph.hpp"
#include "python.hpp"
#include "vart/dpu/vitis_dpu_runner_factory.hpp"
#include "vart/mm/host_flat_tensor_buffer.hpp"
#include "vitis/ai/graph_runner.hpp"

namespace vart {
namespace {

using opendpu::Gil;
using opendpu::Ref;
using opendpu::item;
using opendpu::length;

// A tensor of a runner, and a buffer once somebody asks for one.
struct Slot {
  std::unique_ptr<xir::Tensor> tensor;
  std::unique_ptr<TensorBuffer> buffer;
};

std::vector<Slot> slots(PyObject* described) {
  std::vector<Slot> made;
  for (Py_ssize_t i = 0; i < length(described); ++i) {
    made.push_back({xir::Access::tensor(item(described, i)), nullptr});
  }
  return made;
}

std::vector<const xir::Tensor*> tensors_of(const std::vector<Slot>& slots) {
  std::vector<const xir::Tensor*> made;
  for (const auto& slot : slots) made.push_back(slot.tensor.get());
  return made;
}

std::vector<TensorBuffer*> buffers_of(std::vector<Slot>& slots) {
  std::vector<TensorBuffer*> made;
  for (auto& slot : slots) {
    if (!slot.buffer) {
      slot.buffer = std::make_unique<mm::HostFlatTensorBuffer>(slot.tensor.get());
    }
    made.push_back(slot.buffer.get());
  }
  return made;
}

// [(name, element type, memory)] of buffers.
Ref memory_of(const std::vector<TensorBuffer*>& buffers) {
  Ref made = opendpu::checked(PyList_New(0));
  for (auto* buffer : buffers) {
    if (!buffer) throw std::invalid_argument("a buffer of a job is a null pointer");
    const auto* tensor = buffer->get_tensor();
    if (!tensor) throw std::invalid_argument("the tensor of a job's buffer is a null pointer");
    const std::vector<std::int32_t> first(tensor->get_shape().size(), 0);
    const auto [address, size] = buffer->data(first);
    const auto wanted = static_cast<std::size_t>(tensor->get_data_size());
    if (!address || size < wanted) {
      throw std::runtime_error("the buffer of tensor " + tensor->to_string() + " has " +
                               (address ? std::to_string(size) + " bytes" : "no memory"));
    }
    Ref name = opendpu::string(tensor->get_name());
    Ref type = opendpu::string(tensor->get_data_type().to_string());
    Ref memory = opendpu::view_of(address, wanted, buffer->memory_owner());
    Ref entry = opendpu::checked(PyTuple_Pack(3, name.get(), type.get(), memory.get()));
    PyList_Append(made.get(), entry.get());
  }
  return made;
}

class BridgedRunner : public dpu::DpuRunnerExt {
 public:
  explicit BridgedRunner(Ref runner) : runner_(std::move(runner)) {
    inputs_ = slots(opendpu::call(runner_.get(), "inputs", {}).get());
    outputs_ = slots(opendpu::call(runner_.get(), "outputs", {}).get());
  }

  ~BridgedRunner() override {
    Gil gil;
    try {
      opendpu::call(runner_.get(), "close", {});
    } catch (const std::exception& error) {
      std::cerr << "vart: " << error.what() << std::endl;
    }
    runner_ = Ref();
  }

  std::pair<std::uint32_t, int> execute_async(const std::vector<TensorBuffer*>& input,
                                              const std::vector<TensorBuffer*>& output) override {
    Gil gil;
    const Ref given = memory_of(input), wanted = memory_of(output);
    const Ref job = opendpu::call(runner_.get(), "execute_async",
                                  {given.get(), wanted.get(), are_own(output) ? Py_True : Py_False});
    return {static_cast<std::uint32_t>(opendpu::integer(job.get())), 0};
  }

  int wait(int jobid, int timeout) override {
    Gil gil;
    try {
      opendpu::call(runner_.get(), "wait",
                    {opendpu::number(jobid).get(), opendpu::number(timeout).get()});
      return 0;
    } catch (const std::exception& error) {
      std::cerr << "vart: " << error.what() << std::endl;
      return -1;
    }
  }

  std::vector<const xir::Tensor*> get_input_tensors() override { return tensors_of(inputs_); }
  std::vector<const xir::Tensor*> get_output_tensors() override { return tensors_of(outputs_); }
  std::vector<TensorBuffer*> get_inputs() override { return buffers_of(inputs_); }
  std::vector<TensorBuffer*> get_outputs() override { return buffers_of(outputs_); }
  std::vector<float> get_input_scale() const override {
    return vart::get_input_scale(tensors_of(inputs_));
  }
  std::vector<float> get_output_scale() const override {
    return vart::get_output_scale(tensors_of(outputs_));
  }

 private:
  bool are_own(const std::vector<TensorBuffer*>& buffers) const {
    const auto is_own = [this](const TensorBuffer* buffer) {
      return std::any_of(outputs_.begin(), outputs_.end(),
                         [&](const Slot& slot) { return slot.buffer.get() == buffer; });
    };
    return !buffers.empty() && std::all_of(buffers.begin(), buffers.end(), is_own);
  }

  Ref runner_;
  std::vector<Slot> inputs_, outputs_;
};

std::unique_ptr<BridgedRunner> runner_for(const xir::Subgraph* subgraph, const std::string& mode) {
  if (!subgraph) throw std::invalid_argument("a runner needs a subgraph, but there is none");
  Gil gil;
  return std::make_unique<BridgedRunner>(opendpu::call(
      "create_runner", {xir::Access::object(subgraph), opendpu::string(mode).get()}));
}

std::string mode_in(xir::Attrs* attrs) {
  return attrs && attrs->has_attr("mode", typeid(std::string)) ? attrs->get_attr<std::string>("mode")
                                                               : std::string();
}

}  // namespace

std::unique_ptr<Runner> Runner::create_runner(const xir::Subgraph* subgraph,
                                              const std::string& mode) {
  return runner_for(subgraph, mode);
}

std::unique_ptr<Runner> Runner::create_runner_with_attrs(const xir::Subgraph* subgraph,
                                                         xir::Attrs* attrs) {
  return runner_for(subgraph, mode_in(attrs));
}

std::unique_ptr<RunnerExt> RunnerExt::create_runner(const xir::Subgraph* subgraph,
                                                    xir::Attrs* attrs) {
  return runner_for(subgraph, mode_in(attrs));
}

std::unique_ptr<Runner> dpu::DpuRunnerFactory::create_dpu_runner(const xir::Subgraph* subgraph,
                                                                 xir::Attrs* attrs) {
  return runner_for(subgraph, mode_in(attrs));
}

std::unique_ptr<Runner> dpu::DpuRunnerFactory::create_dpu_runner(const std::string& file_name,
                                                                 const std::string& kernel_name) {
  const auto graph = xir::Graph::deserialize(file_name);
  std::string names;
  for (const auto* child : graph->get_root_subgraph()->children_topological_sort()) {
    if (!child->has_attr("device") || child->get_attr<std::string>("device") != "DPU") continue;
    if (child->get_name() == kernel_name) return runner_for(child, "");
    names += " " + child->get_name();
  }
  throw std::runtime_error(file_name + " has no DPU subgraph " + kernel_name + "; there are:" + names);
}

std::vector<float> get_input_scale(std::vector<const xir::Tensor*> input_tensors) {
  std::vector<float> made;
  for (const auto* tensor : input_tensors) made.push_back(get_input_scale(tensor));
  return made;
}

std::vector<float> get_output_scale(std::vector<const xir::Tensor*> output_tensors) {
  std::vector<float> made;
  for (const auto* tensor : output_tensors) made.push_back(get_output_scale(tensor));
  return made;
}

}  // namespace vart

namespace vitis {
namespace ai {

std::unique_ptr<vart::RunnerExt> GraphRunner::create_graph_runner(const xir::Graph* graph,
                                                                  xir::Attrs*) {
  if (!graph) throw std::invalid_argument("a graph runner needs a graph, but there is none");
  opendpu::Gil gil;
  return std::make_unique<vart::BridgedRunner>(
      opendpu::call("create_graph_runner", {xir::Access::object(graph)}));
}

}  // namespace ai
}  // namespace vitis
