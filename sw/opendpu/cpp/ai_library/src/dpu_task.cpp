// SPDX-License-Identifier: Apache-2.0
// Tasks over runners: images go in as the library normalizes them.
#include "dpu_task.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>

#include "files.hpp"
#include "quantized.hpp"
#include "vart/assistant/xrt_bo_tensor_buffer.hpp"
#include "vitis/ai/graph_runner.hpp"
#include "vitis/ai/time_measure.hpp"

namespace opendpu {
namespace tasks {
namespace {

using vitis::ai::library::DT_FLOAT;
using vitis::ai::library::DT_INT8;
using vitis::ai::library::InputTensor;
using vitis::ai::library::OutputTensor;
using vitis::ai::library::Tensor;

template <typename T>
T described(vart::TensorBuffer* buffer) {
  const auto* tensor = buffer->get_tensor();
  const auto shape = tensor->get_shape();
  const auto at = [&](std::size_t i) -> std::size_t { return i < shape.size() ? shape[i] : 1; };
  T made;
  made.name = tensor->get_name();
  made.size = static_cast<std::size_t>(tensor->get_data_size());
  made.batch = at(0);
  if (shape.size() == 2) {
    made.channel = at(1);
  } else {
    made.height = at(1);
    made.width = at(2);
    made.channel = at(3);
  }
  const auto type = tensor->get_data_type();
  if (type.type == xir::DataType::FLOAT && type.bit_width == 32) {
    made.dtype = DT_FLOAT;
  } else if (type.bit_width == 8) {
    made.fixpos = static_cast<std::int8_t>(tensor->get_attr<std::int32_t>("fix_point"));
  } else {
    throw std::runtime_error("tensor " + tensor->to_string() + " has neither 8 bits nor floats");
  }
  for (std::size_t sample = 0; sample < made.batch; ++sample) {
    std::vector<std::int32_t> index(shape.size(), 0);
    if (!index.empty()) index[0] = static_cast<std::int32_t>(sample);
    made.data.push_back(reinterpret_cast<void*>(buffer->data(index).first));
  }
  return made;
}

class Task : public vitis::ai::DpuTask {
 public:
  Task(const std::string& name, xir::Attrs* attrs, bool whole_graph)
      : graph_(xir::Graph::deserialize(find_model(name))),
        attrs_(attrs ? xir::Attrs::clone(attrs) : xir::Attrs::create()) {
    if (whole_graph) {
      runners_.push_back(vitis::ai::GraphRunner::create_graph_runner(graph_.get(), attrs_.get()));
      return;
    }
    const auto* root = const_cast<const xir::Graph*>(graph_.get())->get_root_subgraph();
    for (const auto* child : root->children_topological_sort()) {
      if (child->has_attr("device") && child->get_attr<std::string>("device") == "DPU") {
        if (!first_) first_ = child;
        runners_.push_back(vart::RunnerExt::create_runner(child, attrs_.get()));
      }
    }
    if (runners_.empty()) throw std::runtime_error("nothing in model " + name + " runs on the DPU");
  }

  void run(std::size_t idx) override {
    run(idx, runners_.at(idx)->get_inputs());
  }
  void run_with_xrt_bo(const std::vector<vart::xrt_bo_t>& input_bos) override {
    if (!first_) {
      throw std::invalid_argument(graph_->get_name() +
                                  " runs as a whole graph, which takes no buffer objects");
    }
    const auto tensors = runners_.front()->get_input_tensors();
    if (tensors.size() != 1 || input_bos.size() != 1) {
      throw std::invalid_argument(std::to_string(input_bos.size()) + " buffer objects for " +
                                  std::to_string(tensors.size()) +
                                  " inputs given, but it must be one for one");
    }
    vart::assistant::XrtBoTensorBuffer input(input_bos.front(), tensors.front());
    run(0, {&input});
  }

  void setMeanScaleBGR(const std::vector<float>& mean, const std::vector<float>& scale) override {
    if (mean.size() != scale.size()) {
      throw std::invalid_argument(std::to_string(mean.size()) + " means, but " +
                                  std::to_string(scale.size()) + " scales");
    }
    mean_ = mean;
    scale_ = scale;
    normalized_ = true;
  }

  void setImageBGR(const cv::Mat& img) override { set({img}, 0, false); }
  void setImageBGR(const std::vector<cv::Mat>& imgs) override { set(imgs, 0, false); }
  void setImageRGB(const cv::Mat& img, std::size_t ind) override { set({img}, ind, true); }
  void setImageRGB(const std::vector<cv::Mat>& imgs, std::size_t ind) override {
    set(imgs, ind, true);
  }
  void setInputDataArray(const std::vector<std::int8_t> input, std::size_t ind) override {
    setInputDataArray(std::vector<std::vector<std::int8_t>>{input}, ind);
  }
  void setInputDataArray(const std::vector<std::vector<std::int8_t>> input,
                         std::size_t ind) override {
    const auto tensor = getInputTensor(0).at(ind);
    check_number(input.size(), tensor);
    for (std::size_t i = 0; i < input.size(); ++i) {
      if (input[i].size() != tensor.size / tensor.batch) {
        throw std::invalid_argument("input " + tensor.name + " has " +
                                    std::to_string(tensor.size / tensor.batch) + " bytes, not " +
                                    std::to_string(input[i].size()));
      }
      std::memcpy(tensor.get_data(i), input[i].data(), input[i].size());
    }
  }

  std::vector<float> getMean() override { return mean_; }
  std::vector<float> getScale() override { return scale_; }
  std::vector<InputTensor> getInputTensor(std::size_t idx) override {
    std::vector<InputTensor> made;
    for (auto* buffer : runners_.at(idx)->get_inputs()) made.push_back(described<InputTensor>(buffer));
    return made;
  }
  std::vector<OutputTensor> getOutputTensor(std::size_t idx) override {
    std::vector<OutputTensor> made;
    for (auto* buffer : runners_.at(idx)->get_outputs()) {
      made.push_back(described<OutputTensor>(buffer));
    }
    return made;
  }
  std::size_t get_num_of_kernels() const override { return runners_.size(); }
  std::size_t get_input_batch(std::size_t kernel_idx, std::size_t node_idx) const override {
    return described<InputTensor>(runners_.at(kernel_idx)->get_inputs().at(node_idx)).batch;
  }
  const xir::Graph* get_graph() const override { return graph_.get(); }
  std::unique_ptr<xir::Attrs> get_attrs() const override {
    return xir::Attrs::clone(attrs_.get());
  }
  int get_input_buffer_size() const override {
    return first_ ? vart::get_input_buffer_size(first_) : static_cast<int>(first_input().size);
  }
  std::size_t get_input_offset() const override {
    return first_ ? vart::get_input_offset(first_).at(0) : 0;
  }
  int get_input_fix_point() const override { return first_input().fixpos; }

 private:
  void run(std::size_t idx, const std::vector<vart::TensorBuffer*>& inputs) {
    const auto start = std::chrono::steady_clock::now();
    auto& runner = *runners_.at(idx);
    const auto job = runner.execute_async(inputs, runner.get_outputs());
    if (runner.wait(static_cast<int>(job.first), -1) != 0) {
      throw std::runtime_error("subgraph " + std::to_string(idx) + " of " + graph_->get_name() +
                               " failed");
    }
    const auto passed = std::chrono::steady_clock::now() - start;
    vitis::ai::TimeMeasure::getThreadLocalForDpu().add(static_cast<int>(
        std::chrono::duration_cast<std::chrono::microseconds>(passed).count()));
  }

  InputTensor first_input() const {
    return described<InputTensor>(runners_.front()->get_inputs().at(0));
  }

  static void check_number(std::size_t number, const Tensor& tensor) {
    if (number == 0 || number > tensor.batch) {
      throw std::invalid_argument(std::to_string(number) + " samples given, but input " +
                                  tensor.name + " takes 1 to " + std::to_string(tensor.batch));
    }
  }

  void set(const std::vector<cv::Mat>& images, std::size_t ind, bool turned) {
    const auto tensor = getInputTensor(0).at(ind);
    check_number(images.size(), tensor);
    for (std::size_t i = 0; i < images.size(); ++i) set(images[i], tensor, i, turned);
  }

  void set(const cv::Mat& image, const InputTensor& tensor, std::size_t sample, bool turned) const {
    const auto channels = static_cast<int>(tensor.channel);
    if (image.depth() != CV_8U || image.channels() != channels ||
        image.rows != static_cast<int>(tensor.height) ||
        image.cols != static_cast<int>(tensor.width)) {
      throw std::invalid_argument(
          "the image has " + std::to_string(image.rows) + "x" + std::to_string(image.cols) + "x" +
          std::to_string(image.channels()) + " values, but input " + tensor.name + " takes " +
          std::to_string(tensor.height) + "x" + std::to_string(tensor.width) + "x" +
          std::to_string(tensor.channel) + " of 8 bits");
    }
    if (normalized_ && static_cast<int>(mean_.size()) < channels) {
      throw std::invalid_argument("the image has " + std::to_string(channels) +
                                  " channels, but there are " + std::to_string(mean_.size()) +
                                  " means");
    }
    const float fixed = tensor.dtype == DT_INT8 ? tensor_scale(tensor) : 1.f;
    auto* ints = static_cast<std::int8_t*>(tensor.get_data(sample));
    auto* floats = static_cast<float*>(tensor.get_data(sample));
    for (int row = 0; row < image.rows; ++row) {
      const auto* pixels = image.ptr<std::uint8_t>(row);
      for (int i = 0; i < image.cols * channels; ++i) {
        const int source = i % channels;
        const auto target = static_cast<std::size_t>(row) * image.cols * channels +
                            (turned ? i - source + channels - 1 - source : i);
        const float value = normalized_ ? (pixels[i] - mean_[source]) * (scale_[source] * fixed)
                                        : static_cast<float>(pixels[i]);
        if (tensor.dtype == DT_FLOAT) {
          floats[target] = value;
        } else {
          ints[target] = normalized_ ? quantized(value) : static_cast<std::int8_t>(pixels[i]);
        }
      }
    }
  }

  std::unique_ptr<xir::Graph> graph_;
  std::unique_ptr<xir::Attrs> attrs_;
  const xir::Subgraph* first_ = nullptr;  // none where the whole graph runs
  std::vector<std::unique_ptr<vart::RunnerExt>> runners_;
  std::vector<float> mean_ = {0.f, 0.f, 0.f}, scale_ = {1.f, 1.f, 1.f};
  bool normalized_ = false;
};

}  // namespace

std::unique_ptr<vitis::ai::DpuTask> make_task(const std::string& name, xir::Attrs* attrs,
                                              bool whole_graph) {
  return std::make_unique<Task>(name, attrs, whole_graph);
}

}  // namespace tasks
}  // namespace opendpu

namespace vitis {
namespace ai {

std::unique_ptr<DpuTask> DpuTask::create(const std::string& kernel_name) {
  return opendpu::tasks::make_task(kernel_name, nullptr, false);
}

std::unique_ptr<DpuTask> DpuTask::create(const std::string& kernel_name, xir::Attrs* attrs) {
  return opendpu::tasks::make_task(kernel_name, attrs, false);
}

}  // namespace ai
}  // namespace vitis
