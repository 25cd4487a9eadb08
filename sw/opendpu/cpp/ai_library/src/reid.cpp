// SPDX-License-Identifier: Apache-2.0
// Reid: pictures of a person in, features out.
#include "vitis/ai/reid.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

#include "averages.hpp"
#include "outputs.hpp"
#include "with_buffers.hpp"

namespace vitis {
namespace ai {
namespace {

// Keeps variances from zero.
constexpr float kEpsilon = 1e-5f;

class ReidImp : public opendpu::tasks::WithBuffers<Reid, ReidResult> {
 public:
  using WithBuffers::WithBuffers;

  ReidResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageRGB(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    return found();
  }

 protected:
  ReidResult found() override {
    auto& task = *configurable_dpu_task_;
    return reid_post_process(task.getInputTensor(), task.getOutputTensor(), task.getConfig(), 0);
  }
};

}  // namespace

ReidResult reid_post_process(const std::vector<std::vector<library::InputTensor>>& input_tensors,
                             const std::vector<std::vector<library::OutputTensor>>& output_tensors,
                             const proto::DpuModelParam& config, std::size_t batch_idx) {
  const auto& input = input_tensors.at(0).at(0);
  const auto& output = output_tensors.at(0).at(0);
  const auto& param = config.reid_param();
  auto features = opendpu::tasks::averages(output, batch_idx);
  const auto number = static_cast<int>(features.size());
  const bool normalized = param.bn_means_size() + param.bn_vars_size() + param.bn_weights_size() > 0;
  if (normalized && (param.bn_means_size() != number || param.bn_vars_size() != number ||
                     param.bn_weights_size() != number)) {
    throw std::runtime_error("reid_param must have " + std::to_string(number) +
                             " bn_means, bn_vars and bn_weights, as output " + output.name +
                             " has channels");
  }
  for (int c = 0; normalized && c < number; ++c) {
    auto& value = features[static_cast<std::size_t>(c)];
    value = (value - param.bn_means(c)) / std::sqrt(param.bn_vars(c) + kEpsilon) *
            param.bn_weights(c);
  }
  ReidResult result{static_cast<int>(input.width), static_cast<int>(input.height), {}};
  cv::normalize(cv::Mat(1, number, CV_32F, features.data()), result.feat);
  return result;
}

std::vector<ReidResult> reid_post_process(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors,
    const proto::DpuModelParam& config) {
  std::vector<ReidResult> results;
  for (std::size_t sample = 0; sample < output_tensors.at(0).at(0).batch; ++sample) {
    results.push_back(reid_post_process(input_tensors, output_tensors, config, sample));
  }
  return results;
}

std::unique_ptr<Reid> Reid::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<Reid> Reid::create(const std::string& model_name, xir::Attrs* attrs,
                                   bool need_preprocess) {
  return std::make_unique<ReidImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
