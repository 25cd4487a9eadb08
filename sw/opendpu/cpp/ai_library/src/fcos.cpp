// SPDX-License-Identifier: Apache-2.0
// FCOS: images in, boxes out.
#include "vitis/ai/fcos.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "one_by_one.hpp"
#include "pixel_boxes.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::InputTensor;
using opendpu::tasks::OutputTensor;
using opendpu::tasks::PixelBox;
using opendpu::tasks::sigmoid;

// What is found at one stride.
class Level {
 public:
  Level(const InputTensor& input, const std::vector<OutputTensor>& outputs,
        const proto::FCOSParam& param, int number)
      : right_(static_cast<float>(input.width) - 1), bottom_(static_cast<float>(input.height) - 1),
        stride_(param.stride(number)), limit_(param.pre_nms_top_n()),
        classes_(opendpu::tasks::output_named(outputs, param.cls_layer_name(number))),
        sides_(opendpu::tasks::output_named(outputs, param.offset_layer_name(number))),
        centres_(opendpu::tasks::output_named(outputs, param.center_layer_name(number))) {
    check(classes_, static_cast<std::size_t>(param.num_classes()));
    check(sides_, 4);
    check(centres_, 1);
  }

  // Adds boxes whose class is surer than a threshold, the surest of them; scores are the geometric
  // means of how sure the class and the centre are.
  void decode(std::size_t sample, float threshold, std::vector<PixelBox>& found) const {
    const auto classes = opendpu::tasks::values(classes_, sample);
    const auto sides = opendpu::tasks::values(sides_, sample);
    const auto centres = opendpu::tasks::values(centres_, sample);
    const float lowest = opendpu::tasks::logit_of(classes_, threshold);
    std::vector<PixelBox> boxes;
    for (std::size_t i = 0; i < classes.size(); ++i) {
      if (!(classes[i] > lowest)) continue;
      const auto cell = i / classes_.channel;
      const float score = std::sqrt(sigmoid(classes[i]) * sigmoid(centres[cell]));
      const auto box = place(cell, &sides[4 * cell]);
      if (box[2] < 0 || box[3] < 0) continue;
      boxes.push_back({static_cast<int>(i % classes_.channel), score, box});
    }
    if (boxes.size() > static_cast<std::size_t>(std::max(limit_, 0))) {
      opendpu::tasks::keep_surest(boxes, limit_);
    }
    found.insert(found.end(), boxes.begin(), boxes.end());
  }

 private:
  void check(const OutputTensor& tensor, std::size_t channels) const {
    if (tensor.channel == channels && tensor.width == classes_.width &&
        tensor.height == classes_.height) {
      return;
    }
    throw std::runtime_error("output " + tensor.name + " has " + std::to_string(tensor.channel) +
                             " channels or other cells than " + classes_.name +
                             ", but must have " + std::to_string(channels) + " in the same cells");
  }

  // Within the input; what is between two sides counts both pixels.
  std::vector<float> place(std::size_t cell, const float* distances) const {
    const auto middle = static_cast<float>(static_cast<int>(stride_) / 2);
    const float x = static_cast<float>(cell % classes_.width) * stride_ + middle;
    const float y = static_cast<float>(cell / classes_.width) * stride_ + middle;
    const float left = std::clamp(x - distances[0] * stride_, 0.f, right_);
    const float top = std::clamp(y - distances[1] * stride_, 0.f, bottom_);
    const float width = std::clamp(x + distances[2] * stride_, 0.f, right_) - left + 1;
    const float height = std::clamp(y + distances[3] * stride_, 0.f, bottom_) - top + 1;
    return {left + width / 2, top + height / 2, width, height};
  }

  float right_, bottom_, stride_;
  int limit_;
  OutputTensor classes_, sides_, centres_;
};

std::vector<Level> levels(const InputTensor& input, const std::vector<OutputTensor>& outputs,
                          const proto::FCOSParam& param) {
  const int number = param.cls_layer_name_size();
  if (number == 0 || param.offset_layer_name_size() != number ||
      param.center_layer_name_size() != number || param.stride_size() != number) {
    throw std::runtime_error(
        "fcos_param has " + std::to_string(number) + " cls_layer_name, " +
        std::to_string(param.offset_layer_name_size()) + " offset_layer_name, " +
        std::to_string(param.center_layer_name_size()) + " center_layer_name and " +
        std::to_string(param.stride_size()) + " stride, but must have one of each for every level");
  }
  std::vector<Level> made;
  for (int i = 0; i < number; ++i) made.emplace_back(input, outputs, param, i);
  return made;
}

class FCOSImp : public FCOS {
 public:
  using FCOS::FCOS;

  FCOSResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageBGR(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    return fcos_post_process(task.getInputTensor()[0], task.getOutputTensor()[0], task.getConfig(),
                             {image.cols}, {image.rows})
        .front();
  }
  std::vector<FCOSResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
};

}  // namespace

std::vector<FCOSResult> fcos_post_process(const std::vector<library::InputTensor>& input_tensors,
                                          const std::vector<library::OutputTensor>& output_tensors,
                                          const proto::DpuModelParam& config,
                                          const std::vector<int>& ws, const std::vector<int>& hs) {
  const auto& param = config.fcos_param();
  const auto& input = input_tensors.at(0);
  opendpu::tasks::check_classes(param.num_classes());
  const auto all = levels(input, output_tensors, param);
  std::vector<FCOSResult> results;
  for (std::size_t sample = 0; sample < ws.size(); ++sample) {
    std::vector<PixelBox> found;
    for (const auto& level : all) level.decode(sample, param.pre_nms_thresh(), found);
    found = opendpu::tasks::suppressed(found, param.num_classes(), param.nms_threshold(), 0);
    opendpu::tasks::keep_surest(found, param.fpn_post_nms_top_n());
    const float x_scale = static_cast<float>(ws[sample]) / static_cast<float>(input.width);
    const float y_scale = static_cast<float>(hs.at(sample)) / static_cast<float>(input.height);
    FCOSResult result;
    for (const auto& [label, score, place] : found) {
      const float left = (place[0] - place[2] / 2) * x_scale;
      const float top = (place[1] - place[3] / 2) * y_scale;
      result.bboxes.push_back(
          {label, score, {left, top, left + place[2] * x_scale, top + place[3] * y_scale}});
    }
    results.push_back(result);
  }
  return results;
}

std::unique_ptr<FCOS> FCOS::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<FCOS> FCOS::create(const std::string& model_name, xir::Attrs* attrs,
                                   bool need_preprocess) {
  return std::make_unique<FCOSImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
