// SPDX-License-Identifier: Apache-2.0
// The shape of Vitis AI's examples: runners in threads, buffers on the program's own memory.
//
// threads MODEL INPUT FOLDER THREADS: every thread runs the DPU subgraph on the file INPUT (int8), and
// writes FOLDER/<thread>.<number of the output>.bin, first of int8 buffers, then of float ones.
#include <glog/logging.h>

#include <fstream>
#include <iterator>
#include <thread>
#include <vart/mm/host_flat_tensor_buffer.hpp>
#include <vart/runner.hpp>
#include <xir/graph/graph.hpp>
#include <xir/tensor/tensor.hpp>
#include <xir/util/data_type.hpp>

class FlatBuffer : public vart::TensorBuffer {
 public:
  FlatBuffer(void* data, const xir::Tensor* tensor) : TensorBuffer{tensor}, data_{data} {}
  std::pair<uint64_t, size_t> data(const std::vector<int> idx = {}) override {
    const auto bytes = static_cast<size_t>(tensor_->get_data_type().bit_width / 8);
    const auto shape = tensor_->get_shape();
    size_t element = 0;
    for (size_t i = 0; i < idx.size(); ++i) element = element * shape[i] + idx[i];
    const auto number = static_cast<size_t>(tensor_->get_element_num());
    return {reinterpret_cast<uint64_t>(data_) + element * bytes, (number - element) * bytes};
  }

 private:
  void* data_;
};

static std::vector<const xir::Subgraph*> dpu_subgraphs(const xir::Graph* graph) {
  std::vector<const xir::Subgraph*> found;
  for (auto* child : graph->get_root_subgraph()->children_topological_sort()) {
    CHECK(child->has_attr("device"));
    if (child->get_attr<std::string>("device") == "DPU") found.push_back(child);
  }
  return found;
}

// Tensors with the names and shapes of others.
static std::vector<std::unique_ptr<xir::Tensor>> like(
    const std::vector<const xir::Tensor*>& tensors, const xir::DataType& type) {
  std::vector<std::unique_ptr<xir::Tensor>> made;
  for (const auto* tensor : tensors) {
    made.push_back(std::unique_ptr<xir::Tensor>(
        xir::Tensor::create(tensor->get_name(), tensor->get_shape(), type)));
  }
  return made;
}

template <typename T>
static void run(vart::Runner* runner, const std::vector<int8_t>& input, const xir::DataType& type,
                float scale, const std::string& prefix) {
  auto inputs = like(runner->get_input_tensors(), type);
  auto outputs = like(runner->get_output_tensors(), type);
  std::vector<T> given(input.size());
  for (size_t i = 0; i < input.size(); ++i) given[i] = static_cast<T>(input[i] * scale);
  std::vector<std::vector<T>> results;
  std::vector<std::unique_ptr<vart::TensorBuffer>> buffers;
  std::vector<vart::TensorBuffer*> in, out;
  buffers.push_back(std::make_unique<FlatBuffer>(given.data(), inputs[0].get()));
  in.push_back(buffers.back().get());
  for (const auto& tensor : outputs) results.emplace_back(tensor->get_element_num());
  for (size_t i = outputs.size(); i-- > 0;) {  // not in the runner's order: names decide
    buffers.push_back(std::make_unique<FlatBuffer>(results[i].data(), outputs[i].get()));
    out.push_back(buffers.back().get());
  }
  for (int round = 0; round < 3; ++round) {
    auto job = runner->execute_async(in, out);
    CHECK_EQ(job.second, 0);
    CHECK_EQ(runner->wait(round == 1 ? -1 : static_cast<int>(job.first), -1), 0);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    std::ofstream file(prefix + "." + std::to_string(i) + ".bin", std::ios::binary);
    file.write(reinterpret_cast<const char*>(results[i].data()), results[i].size() * sizeof(T));
  }
}

int main(int argc, char* argv[]) {
  CHECK_EQ(argc, 5) << "usage: " << argv[0] << " MODEL INPUT FOLDER THREADS";
  auto graph = xir::Graph::deserialize(argv[1]);
  auto subgraphs = dpu_subgraphs(graph.get());
  CHECK_EQ(subgraphs.size(), 1u) << "one and only one DPU subgraph";
  LOG(INFO) << "create running for subgraph: " << subgraphs[0]->get_name();
  std::ifstream file(argv[2], std::ios::binary);
  std::vector<int8_t> input{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::unique_ptr<vart::Runner>> runners;
  std::vector<std::thread> threads;
  for (int i = 0; i < std::stoi(argv[4]); ++i) {
    runners.push_back(vart::Runner::create_runner(subgraphs[0], "run"));
    auto* runner = runners.back().get();
    CHECK(runner->get_tensor_format() == vart::Runner::TensorFormat::NHWC);
    threads.emplace_back([=, &input] {
      const auto prefix = std::string(argv[3]) + "/" + std::to_string(i);
      const int point = runner->get_input_tensors()[0]->template get_attr<int>("fix_point");
      run<int8_t>(runner, input, {xir::DataType::XINT, 8}, 1.0f, prefix + ".int8");
      run<float>(runner, input, {xir::DataType::FLOAT, sizeof(float) * 8u},
                 std::exp2f(-1.0f * static_cast<float>(point)), prefix + ".float");
    });
  }
  for (auto& thread : threads) thread.join();
  std::cout << "done" << std::endl;
}
