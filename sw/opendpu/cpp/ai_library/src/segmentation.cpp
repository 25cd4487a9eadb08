// SPDX-License-Identifier: Apache-2.0
// Segmentation: images in, classes or colours of pixels out.
#include "vitis/ai/segmentation.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "configured_image.hpp"
#include "one_by_one.hpp"
#include "outputs.hpp"
#include "vitis/ai/env_config.hpp"

DEF_ENV_PARAM(HARDWARE_ARGMAX, "0")

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::InputTensor;
using opendpu::tasks::OutputTensor;

template <typename T>
void classes(const T* values, std::size_t channels, cv::Mat& made) {
  for (int row = 0; row < made.rows; ++row) {
    auto* pixels = made.ptr<std::uint8_t>(row);
    for (int column = 0; column < made.cols; ++column, values += channels) {
      pixels[column] = ENV_PARAM(HARDWARE_ARGMAX)
                           ? static_cast<std::uint8_t>(values[0])
                           : static_cast<std::uint8_t>(
                                 std::max_element(values, values + channels) - values);
    }
  }
}

std::vector<std::uint8_t> levels(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::uint8_t> made;
  for (int level; words >> level;) made.push_back(static_cast<std::uint8_t>(level));
  return made;
}

class SegmentationImp : public Segmentation {
 public:
  using Segmentation::Segmentation;

  SegmentationResult run_8UC1(const cv::Mat& image) override {
    const auto output = computed(image);
    return segmentation_post_process_8UC1(input(), output).front();
  }
  SegmentationResult run_8UC3(const cv::Mat& image) override {
    const auto output = computed(image);
    return segmentation_post_process_8UC3(input(), output, configurable_dpu_task_->getConfig())
        .front();
  }
  std::vector<SegmentationResult> run_8UC1(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images,
                                      [this](const cv::Mat& image) { return run_8UC1(image); });
  }
  std::vector<SegmentationResult> run_8UC3(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images,
                                      [this](const cv::Mat& image) { return run_8UC3(image); });
  }

 private:
  InputTensor input() const { return configurable_dpu_task_->getInputTensor()[0].at(0); }

  OutputTensor computed(const cv::Mat& image) {
    auto& task = *configurable_dpu_task_;
    opendpu::tasks::run_with(task, image);
    const auto outputs = task.getOutputTensor()[0];
    const auto& param = task.getConfig().segmentation_param();
    return param.output_tensor_name().empty()
               ? outputs.at(0)
               : opendpu::tasks::output_named(outputs, param.output_tensor_name());
  }
};

}  // namespace

std::vector<SegmentationResult> segmentation_post_process_8UC1(const InputTensor& input_tensor,
                                                               const OutputTensor& output_tensor) {
  std::vector<SegmentationResult> results;
  for (std::size_t sample = 0; sample < output_tensor.batch; ++sample) {
    cv::Mat made(static_cast<int>(output_tensor.height), static_cast<int>(output_tensor.width),
                 CV_8UC1);
    const void* values = output_tensor.get_data(sample);
    if (output_tensor.dtype == library::DT_FLOAT) {
      classes(static_cast<const float*>(values), output_tensor.channel, made);
    } else {
      classes(static_cast<const std::int8_t*>(values), output_tensor.channel, made);
    }
    results.push_back({static_cast<int>(input_tensor.width),
                       static_cast<int>(input_tensor.height), made});
  }
  return results;
}

std::vector<SegmentationResult> segmentation_post_process_8UC3(
    const InputTensor& input_tensor, const OutputTensor& output_tensor,
    const proto::DpuModelParam& config) {
  const auto& param = config.segmentation_param();
  const std::vector<std::uint8_t> colours[] = {levels(param.color1()), levels(param.color2()),
                                               levels(param.color3())};
  auto results = segmentation_post_process_8UC1(input_tensor, output_tensor);
  for (auto& result : results) {
    cv::Mat made(result.segmentation.size(), CV_8UC3);
    for (int row = 0; row < made.rows; ++row) {
      for (int column = 0; column < made.cols; ++column) {
        const std::size_t label = result.segmentation.at<std::uint8_t>(row, column);
        for (int c = 0; c < 3; ++c) {
          if (label >= colours[c].size()) {
            throw std::runtime_error("class " + std::to_string(label) + " has no colour: color" +
                                     std::to_string(c + 1) + " has " +
                                     std::to_string(colours[c].size()));
          }
          made.at<cv::Vec3b>(row, column)[c] = colours[c][label];
        }
      }
    }
    result.segmentation = made;
  }
  return results;
}

std::unique_ptr<Segmentation> Segmentation::create(const std::string& model_name,
                                                   bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<Segmentation> Segmentation::create(const std::string& model_name,
                                                   xir::Attrs* attrs, bool need_preprocess) {
  return std::make_unique<SegmentationImp>(model_name, attrs, need_preprocess);
}

std::unique_ptr<Segmentation8UC1> Segmentation8UC1::create(const std::string& model_name,
                                                           bool need_preprocess) {
  return std::make_unique<Segmentation8UC1>(Segmentation::create(model_name, need_preprocess));
}

std::unique_ptr<Segmentation8UC3> Segmentation8UC3::create(const std::string& model_name,
                                                           bool need_preprocess) {
  return std::make_unique<Segmentation8UC3>(Segmentation::create(model_name, need_preprocess));
}

}  // namespace ai
}  // namespace vitis
