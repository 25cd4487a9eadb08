// SPDX-License-Identifier: Apache-2.0
// YOLOv8: images in, boxes out.
#include "vitis/ai/yolov8.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "letterbox.hpp"
#include "one_by_one.hpp"
#include "outputs.hpp"
#include "vitis/ai/nnpp/apply_nms.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::OutputTensor;
using opendpu::tasks::sigmoid;
using proto::YoloV8Param;

// A side's distance from the cell is a distribution over so many steps of a stride.
constexpr std::size_t kSteps = 16;
constexpr std::size_t kSides = 4;

// By centre and size, in pixels of the input.
struct Found {
  int label;
  float score;
  std::vector<float> place;
};

bool surer(const Found& a, const Found& b) { return a.score > b.score; }

// The mean of a distribution.
float distance(const float* steps) {
  float shares[kSteps];
  std::copy_n(steps, kSteps, shares);
  opendpu::tasks::softmax(shares, kSteps);
  float mean = 0;
  for (std::size_t i = 0; i < kSteps; ++i) mean += shares[i] * static_cast<float>(i);
  return mean;
}

// The value that a class must exceed. Of an output of 8 bits it is a whole number of its steps,
// toward zero, as in the library.
float least(const OutputTensor& tensor, float threshold) {
  const float value = -std::log(1 / threshold - 1);
  if (tensor.dtype == library::DT_FLOAT) return value;
  const float scale = tensor_scale(tensor);
  return std::clamp(std::trunc(value / scale), -128.f, 127.f) * scale;
}

void decode(const OutputTensor& tensor, std::size_t sample, float stride, const YoloV8Param& param,
            std::vector<Found>& found) {
  const auto classes = static_cast<std::size_t>(param.num_classes());
  const std::size_t fields = kSides * kSteps + classes;
  if (tensor.channel != fields) {
    throw std::runtime_error("output " + tensor.name + " has " + std::to_string(tensor.channel) +
                             " channels, but boxes have 64 and num_classes is " +
                             std::to_string(classes));
  }
  const auto values = opendpu::tasks::values(tensor, sample);
  const float lowest = least(tensor, param.conf_thresh());
  for (std::size_t i = 0; i < values.size() / fields; ++i) {
    const float* cell = &values[i * fields];
    std::vector<float> place;
    for (std::size_t label = 0; label < classes; ++label) {
      const float value = cell[kSides * kSteps + label];
      if (!(value > lowest)) continue;
      if (place.empty()) {
        const float x = static_cast<float>(i % tensor.width) + 0.5f;
        const float y = static_cast<float>(i / tensor.width) + 0.5f;
        const float left = x - distance(cell), top = y - distance(cell + kSteps);
        const float right = x + distance(cell + 2 * kSteps);
        const float bottom = y + distance(cell + 3 * kSteps);
        place = {(left + right) / 2 * stride, (top + bottom) / 2 * stride, (right - left) * stride,
                 (bottom - top) * stride};
      }
      found.push_back({static_cast<int>(label), sigmoid(value), place});
    }
  }
}

// At most `number` of the surest, in their order; any number where it is 0.
void keep_surest(std::vector<Found>& found, int number) {
  std::stable_sort(found.begin(), found.end(), surer);
  const auto limit = static_cast<std::size_t>(number);
  if (number > 0 && found.size() > limit) found.resize(limit);
}

std::vector<Found> remaining(const std::vector<Found>& found, const YoloV8Param& param) {
  std::vector<Found> made;
  for (int label = 0; label < param.num_classes(); ++label) {
    std::vector<std::vector<float>> places;
    std::vector<float> scores;
    for (const auto& one : found) {
      if (one.label != label) continue;
      places.push_back(one.place);
      scores.push_back(one.score);
    }
    std::vector<std::size_t> kept;
    applyNMS(places, scores, param.nms_threshold(), 0, kept, true);
    for (const auto i : kept) made.push_back({label, scores[i], places[i]});
  }
  return made;
}

class YOLOv8Imp : public YOLOv8 {
 public:
  using YOLOv8::YOLOv8;

  YOLOv8Result run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    const auto fitted =
        opendpu::tasks::centred(image, getInputWidth(), getInputHeight(), false);
    task.setInputImageRGB(fitted.image);
    task.run(0);
    return yolov8_post_process(task.getInputTensor()[0], task.getOutputTensor()[0],
                               task.getConfig(), {fitted.scale}, {fitted.left}, {fitted.top})
        .front();
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
  const auto maps = opendpu::tasks::outputs_named(output_tensors, param.detect_layer_name());
  if (static_cast<std::size_t>(param.stride_size()) < maps.size()) {
    throw std::runtime_error("there are " + std::to_string(param.stride_size()) +
                             " strides, but " + std::to_string(maps.size()) + " outputs");
  }
  std::vector<YOLOv8Result> results;
  for (std::size_t sample = 0; sample < scales.size(); ++sample) {
    std::vector<Found> found;
    for (std::size_t i = 0; i < maps.size(); ++i) {
      decode(maps[i], sample, param.stride(static_cast<int>(i)), param, found);
    }
    keep_surest(found, param.max_boxes_num());
    found = remaining(found, param);
    keep_surest(found, param.max_nms_num());
    YOLOv8Result result;
    for (const auto& [label, score, place] : found) {
      const float left = (place[0] - place[2] / 2 - static_cast<float>(left_padding.at(sample))) /
                         scales[sample];
      const float top = (place[1] - place[3] / 2 - static_cast<float>(top_padding.at(sample))) /
                        scales[sample];
      result.bboxes.push_back({label, score,
                               {left, top, left + place[2] / scales[sample],
                                top + place[3] / scales[sample]}});
    }
    results.push_back(std::move(result));
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
