// SPDX-License-Identifier: Apache-2.0
// The YOLOv5 of once-for-all networks: images in, boxes out.
#include "vitis/ai/ofa_yolo.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "letterbox.hpp"
#include "one_by_one.hpp"
#include "pixel_boxes.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::InputTensor;
using opendpu::tasks::OutputTensor;
using opendpu::tasks::PixelBox;
using opendpu::tasks::sigmoid;
using proto::YoloV3Param;

void check(const proto::YoloV5Param& param, const std::vector<OutputTensor>& maps) {
  const auto& yolo = param.yolo_param();
  opendpu::tasks::check_classes(yolo.num_classes());
  const auto number = maps.size();
  if (static_cast<std::size_t>(param.stride_size()) < number) {
    throw std::runtime_error("there are " + std::to_string(param.stride_size()) +
                             " strides, but " + std::to_string(number) + " outputs");
  }
  const auto anchors = static_cast<std::size_t>(std::max(yolo.anchorcnt(), 0));
  if (static_cast<std::size_t>(yolo.biases_size()) < 2 * anchors * number) {
    throw std::runtime_error("there are " + std::to_string(yolo.biases_size()) +
                             " biases, but must be " + std::to_string(2 * anchors * number));
  }
  for (const auto& map : maps) {
    if (anchors != 0 && map.channel == anchors * (5 + yolo.num_classes())) continue;
    throw std::runtime_error("output " + map.name + " has " + std::to_string(map.channel) +
                             " channels, but anchorCnt is " + std::to_string(yolo.anchorcnt()) +
                             " and num_classes " + std::to_string(yolo.num_classes()));
  }
}

// Adds a box for every class that is sure enough, in pixels of the input.
void decode(const OutputTensor& map, std::size_t sample, const YoloV3Param& param, float stride,
            const float* biases, std::vector<PixelBox>& boxes) {
  const auto values = opendpu::tasks::values(map, sample);
  const auto anchors = static_cast<std::size_t>(param.anchorcnt());
  const auto fields = static_cast<std::size_t>(5 + param.num_classes());
  for (std::size_t i = 0; i < values.size() / fields; ++i) {
    const float* cell = &values[i * fields];
    const float objectness = sigmoid(cell[4]);
    if (objectness < param.conf_threshold()) continue;
    const auto place = i / anchors;
    const float* bias = biases + 2 * (i % anchors);
    const auto middle = [&](float value, std::size_t at) {
      return (2 * sigmoid(value) - 0.5f + static_cast<float>(at)) * stride;
    };
    const float wide = 2 * sigmoid(cell[2]), high = 2 * sigmoid(cell[3]);
    const std::vector<float> box{middle(cell[0], place % map.width),
                                 middle(cell[1], place / map.width), wide * wide * bias[0],
                                 high * high * bias[1]};
    for (std::size_t c = 5; c < fields; ++c) {
      const float score = objectness * sigmoid(cell[c]);
      if (score < param.conf_threshold()) continue;
      boxes.push_back({static_cast<int>(c) - 5, score, box});
    }
  }
}

// Boxes of the input as shares of an image that was fitted into its middle.
OFAYOLOResult in_image(const std::vector<PixelBox>& boxes, const InputTensor& input, float least,
                       int width, int height) {
  const auto across = static_cast<float>(input.width), down = static_cast<float>(input.height);
  const auto w = static_cast<float>(width), h = static_cast<float>(height);
  const float scale = std::min(across / w, down / h);
  const float left = (across - std::round(w * scale)) / 2, top = (down - std::round(h * scale)) / 2;
  OFAYOLOResult result{static_cast<int>(input.width), static_cast<int>(input.height), {}};
  for (const auto& [label, score, place] : boxes) {
    if (!(score > least)) continue;
    result.bboxes.push_back({label, score, (place[0] - place[2] / 2 - left) / scale / w,
                             (place[1] - place[3] / 2 - top) / scale / h, place[2] / scale / w,
                             place[3] / scale / h});
  }
  return result;
}

class OFAYOLOImp : public OFAYOLO {
 public:
  using OFAYOLO::OFAYOLO;

  OFAYOLOResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageRGB(
        opendpu::tasks::centred(image, getInputWidth(), getInputHeight(), true).image);
    task.run(0);
    return ofa_yolo_post_process(task.getInputTensor()[0], task.getOutputTensor()[0],
                                 task.getConfig(), image.cols, image.rows);
  }
  std::vector<OFAYOLOResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
};

}  // namespace

OFAYOLOResult ofa_yolo_post_process(const std::vector<library::InputTensor>& input_tensors,
                                    const std::vector<library::OutputTensor>& output_tensors,
                                    const proto::DpuModelParam& config, const int w, const int h) {
  return ofa_yolo_post_process(input_tensors, output_tensors, config, std::vector<int>{w},
                               std::vector<int>{h})
      .front();
}

std::vector<OFAYOLOResult> ofa_yolo_post_process(
    const std::vector<library::InputTensor>& input_tensors,
    const std::vector<library::OutputTensor>& output_tensors, const proto::DpuModelParam& config,
    const std::vector<int>& w, const std::vector<int>& h) {
  const auto& param = config.yolo_v5_param();
  const auto& yolo = param.yolo_param();
  const auto maps = opendpu::tasks::outputs_named(output_tensors, yolo.layer_name());
  check(param, maps);
  std::vector<OFAYOLOResult> results;
  for (std::size_t sample = 0; sample < w.size(); ++sample) {
    std::vector<PixelBox> boxes;
    for (std::size_t i = 0; i < maps.size(); ++i) {
      decode(maps[maps.size() - 1 - i], sample, yolo, param.stride(static_cast<int>(i)),
             yolo.biases().data() + 2 * i * yolo.anchorcnt(), boxes);
    }
    opendpu::tasks::keep_surest(boxes, param.max_boxes_num());
    auto kept = opendpu::tasks::suppressed(boxes, yolo.num_classes(), yolo.nms_threshold(),
                                           yolo.conf_threshold());
    opendpu::tasks::keep_surest(kept, param.max_nms_num());
    results.push_back(in_image(kept, input_tensors.at(0), yolo.conf_threshold(), w[sample],
                               h.at(sample)));
  }
  return results;
}

std::unique_ptr<OFAYOLO> OFAYOLO::create(const std::string& model_name, bool need_preprocess) {
  return std::make_unique<OFAYOLOImp>(model_name, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
