// SPDX-License-Identifier: Apache-2.0
// The other shape of the examples: a runner's own buffers, and the graph runner's.
//
// buffers MODEL INPUT: prints the DPU subgraph's first output, then those of the whole graph.
#include <glog/logging.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <tuple>

#include "vart/assistant/tensor_buffer_allocator.hpp"
#include "vart/experimental/runner_helper.hpp"
#include "vart/runner_ext.hpp"
#include "vitis/ai/collection_helper.hpp"
#include "vitis/ai/graph_runner.hpp"

template <typename T>
static void print(vart::TensorBuffer* buffer) {
  uint64_t address = 0u;
  size_t size = 0u;
  auto index = buffer->get_tensor()->get_shape();
  std::fill(index.begin(), index.end(), 0);
  std::tie(address, size) = buffer->data(index);
  CHECK_EQ(size, static_cast<size_t>(buffer->get_tensor()->get_data_size()));
  for (size_t i = 0; i < size / sizeof(T); ++i) {
    std::cout << (i ? " " : "") << +reinterpret_cast<const T*>(address)[i];
  }
  std::cout << std::endl;
}

static void run(vart::RunnerExt* runner, const char* input) {
  auto inputs = runner->get_inputs();
  auto outputs = runner->get_outputs();
  CHECK(runner->get_inputs() == inputs) << "the runner owns its buffers";
  std::ifstream file(input, std::ios::binary);
  const auto size = static_cast<size_t>(inputs[0]->get_tensor()->get_data_size());
  std::vector<char> bytes(size);
  CHECK(file.read(bytes.data(), static_cast<std::streamsize>(size)).good());
  inputs[0]->copy_from_host(0, bytes.data(), size, 0);
  for (auto* buffer : inputs) {
    buffer->sync_for_write(0, size / buffer->get_tensor()->get_shape()[0]);
  }
  auto job = runner->execute_async(inputs, outputs);
  CHECK_EQ(runner->wait(static_cast<int>(job.first), -1), 0) << "failed to run";
  for (auto* buffer : outputs) buffer->sync_for_read(0, buffer->get_tensor()->get_data_size());
}

static std::vector<vart::TensorBuffer*> pointers(
    const std::vector<std::unique_ptr<vart::TensorBuffer>>& buffers) {
  return vitis::ai::vector_unique_ptr_get(buffers);
}

// Results in memory of the program's own, whose addresses a device would be given.
static void run_in_place(vart::RunnerExt* runner) {
  uint64_t from[] = {runner->get_inputs()[0]->data().first};
  auto in = vart::TensorBuffer::create_unowned_device_tensor_buffer(
      runner->get_input_tensors()[0], from, 1);
  std::vector<std::vector<char>> results;
  std::vector<std::unique_ptr<vart::TensorBuffer>> out;
  for (const auto* tensor : runner->get_output_tensors()) {
    results.emplace_back(static_cast<size_t>(tensor->get_data_size()));
    uint64_t to[] = {reinterpret_cast<uint64_t>(results.back().data())};
    out.push_back(vart::TensorBuffer::create_unowned_device_tensor_buffer(tensor, to, 1));
    CHECK(out.back()->get_location() == vart::TensorBuffer::location_t::DEVICE_0);
    CHECK_EQ(out.back()->data_phy({0, 0, 0, 0}).first, to[0]);
  }
  const auto job = runner->execute_async({in.get()}, pointers(out));
  CHECK_EQ(runner->wait(static_cast<int>(job.first), -1), 0);
  for (size_t i = 0; i < results.size(); ++i) {
    const auto* before = reinterpret_cast<const void*>(runner->get_outputs()[i]->data().first);
    CHECK_EQ(std::memcmp(results[i].data(), before, results[i].size()), 0);
  }
  try {
    vart::TensorBuffer::create_unowned_device_tensor_buffer(in->get_tensor(), from, 2);
    CHECK(false) << "a batch of 1 has one address";
  } catch (const std::invalid_argument&) {
  }
}

// Jobs that nobody waits for, whose buffers are gone: they must not write where others are by then.
static void leave(std::unique_ptr<vart::RunnerExt> runner) {
  for (int i = 0; i < 20; ++i) {
    auto in = vart::alloc_cpu_flat_tensor_buffers(runner->get_input_tensors());
    auto out = vart::alloc_cpu_flat_tensor_buffers(runner->get_output_tensors());
    runner->execute_async(pointers(in), pointers(out));
  }
  std::vector<std::vector<char>> others;
  for (const auto* tensor : runner->get_output_tensors()) {
    others.resize(others.size() + 20,
                  std::vector<char>(static_cast<size_t>(tensor->get_data_size()), 0x55));
  }
  runner.reset();
  for (const auto& other : others) {
    CHECK(std::all_of(other.begin(), other.end(), [](char byte) { return byte == 0x55; }));
  }
}

int main(int, char* argv[]) {
  std::cout.precision(9);  // floats come back as they were
  auto graph = xir::Graph::deserialize(argv[1]);
  auto attrs = xir::Attrs::create();
  attrs->set_attr("mode", std::string("sim"));
  xir::Subgraph* subgraph = nullptr;
  for (auto c : graph->get_root_subgraph()->children_topological_sort()) {
    if (c->get_attr<std::string>("device") == "DPU") subgraph = c;
  }
  std::unique_ptr<vart::RunnerExt> runner = vart::RunnerExt::create_runner(subgraph, attrs.get());
  run(runner.get(), argv[2]);
  auto* first = runner->get_outputs()[0];
  print<int8_t>(first);
  // The same as floats, converted by the buffers.
  auto floats = xir::Tensor::create("f", first->get_tensor()->get_shape(), xir::DataType("FLOAT32"));
  std::vector<float> memory(static_cast<size_t>(floats->get_element_num()));
  vart::CpuFlatTensorBuffer copy(memory.data(), floats.get());
  vart::TensorBuffer::copy_tensor_buffer(first, &copy);
  print<float>(&copy);
  vart::CpuFlatTensorBufferOwned owned(floats.get());
  vart::TensorBuffer::copy_tensor_buffer(&copy, &owned);
  CHECK_EQ(std::memcmp(reinterpret_cast<void*>(owned.data().first), memory.data(),
                       memory.size() * sizeof(float)), 0);
  vart::TensorBuffer::copy_tensor_buffer(&owned, first);
  print<int8_t>(first);
  std::cout << vart::get_output_scale(first->get_tensor()) << " "
            << vart::get_input_scale(runner->get_input_tensors())[0] << std::endl;
  auto allocator = vart::assistant::TensorBufferAllocator::create(attrs.get());
  auto made = allocator->allocate(subgraph, runner->get_input_tensors(), {first->get_tensor()});
  CHECK_EQ(made.first.size() + made.second.size(), 2u);
  CHECK_EQ(made.second[0]->data({}).second, first->data({}).second);
  auto whole = vitis::ai::GraphRunner::create_graph_runner(graph.get(), attrs.get());
  run(whole.get(), argv[2]);
  for (auto* buffer : whole->get_outputs()) {
    const bool floats = buffer->get_tensor()->get_data_type().type == xir::DataType::FLOAT;
    (floats ? print<float> : print<int8_t>)(buffer);
  }
  // Programs for boards read such results without waiting.
  const std::vector<char> nothing(static_cast<size_t>(first->get_tensor()->get_data_size()));
  first->copy_from_host(0, nothing.data(), nothing.size(), 0);
  runner->execute_async(runner->get_inputs(), runner->get_outputs());
  print<int8_t>(first);
  run_in_place(runner.get());
  leave(std::move(runner));
}
