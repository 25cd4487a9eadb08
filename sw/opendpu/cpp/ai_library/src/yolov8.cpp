// SPDX-License-Identifier: Apache-2.0
// YOLOv8: images in, boxes out.
#include "vitis/ai/yolov8.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "letterbox.hpp"
#include "one_by_one.hpp"
#include "pixel_boxes.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::OutputTensor;
using opendpu::tasks::PixelBox;
using opendpu::tasks::sigmoid;
using proto::YoloV8Param;

// A side's distance from the cell is a distribution over so many steps of a stride.
constexpr std::size_t kSteps = 16;
constexpr std::size_t kSides = 4;

// The mean of a distribution.
float distance(const float* steps) {
  float shares[kSteps];
  std::copy_n(steps, kSteps, shares);
  opendpu::tasks::softmax(shares, kSteps);
  float mean = 0;
  for (std::size_t i = 0; i < kSteps; ++i) mean += shares[i] * static_cast<float>(i);
  return mean;
}

void decode(const OutputTensor& tensor, std::size_t sample, float stride, const YoloV8Param& param,
            std::vector<PixelBox>& found) {
  const auto classes = static_cast<std::size_t>(param.num_classes());
  const std::size_t fields = kSides * kSteps + classes;
  if (tensor.channel != fields) {
    throw std::runtime_error("output " + tensor.name + " has " + std::to_string(tensor.channel) +
                             " channels, but boxes have 64 and num_classes is " +
                             std::to_string(classes));
  }
  const auto values = opendpu::tasks::values(tensor, sample);
  const float lowest = opendpu::tasks::logit_of(tensor, param.conf_thresh());
  for (std::size_t i = 0; i < values.size() / fields; ++i) {
    const float* cell = &values[i * fields];
    std::vector<float> place;
    for (std::size_t label = 0; label < classes; ++label) {
      const float value = cell[kSides * kSteps + label];
      if (!(value > lowest)) continue;
      if (place.empty()) {
        place = opendpu::tasks::around(
            static_cast<float>(i % tensor.width) + 0.5f, static_cast<float>(i / tensor.width) + 0.5f,
            {distance(cell), distance(cell + kSteps), distance(cell + 2 * kSteps),
             distance(cell + 3 * kSteps)},
            stride);
      }
      found.push_back({static_cast<int>(label), sigmoid(value), place});
    }
  }
}

class YOLOv8Imp : public YOLOv8 {
 public:
  using YOLOv8::YOLOv8;

  YOLOv8Result run(const cv::Mat& image) override {
    return opendpu::tasks::run_centred(
        *configurable_dpu_task_,
        opendpu::tasks::centred(image, getInputWidth(), getInputHeight(), false),
        yolov8_post_process);
  }
  std::vector<YOLOv8Result> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
};

}  // namespace

std::vector<YOLOv8Result> yolov8_post_process(
    const std::vector<library::InputTensor>&,
    const std::vector<library::OutputTensor>& output_tensors, const proto::DpuModelParam& config,
    const std::vector<float>& scales, const std::vector<int>& left_padding,
    const std::vector<int>& top_padding) {
  const auto& param = config.yolo_v8_param();
  opendpu::tasks::check_classes(param.num_classes());
  const auto maps = opendpu::tasks::outputs_named(output_tensors, param.detect_layer_name());
  if (static_cast<std::size_t>(param.stride_size()) < maps.size()) {
    throw std::runtime_error("there are " + std::to_string(param.stride_size()) +
                             " strides, but " + std::to_string(maps.size()) + " outputs");
  }
  std::vector<YOLOv8Result> results;
  for (std::size_t sample = 0; sample < scales.size(); ++sample) {
    std::vector<PixelBox> found;
    for (std::size_t i = 0; i < maps.size(); ++i) {
      decode(maps[i], sample, param.stride(static_cast<int>(i)), param, found);
    }
    opendpu::tasks::keep_surest(found, param.max_boxes_num());
    found = opendpu::tasks::suppressed(found, param.num_classes(), param.nms_threshold(), 0);
    opendpu::tasks::keep_surest(found, param.max_nms_num());
    results.push_back(opendpu::tasks::result_of<YOLOv8Result>(
        found, scales[sample], left_padding.at(sample), top_padding.at(sample)));
  }
  return results;
}

std::unique_ptr<YOLOv8> YOLOv8::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<YOLOv8> YOLOv8::create(const std::string& model_name, xir::Attrs* attrs,
                                       bool need_preprocess) {
  return std::make_unique<YOLOv8Imp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
