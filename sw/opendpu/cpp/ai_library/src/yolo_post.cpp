// SPDX-License-Identifier: Apache-2.0
// Boxes out of the outputs of YOLOv2, v3, v4, v5 and v7.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "pixel_boxes.hpp"
#include "vitis/ai/nnpp/yolov2.hpp"
#include "vitis/ai/nnpp/yolov3.hpp"
#include "vitis/ai/nnpp/yolov7.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::ClassBox;
using opendpu::tasks::InputTensor;
using opendpu::tasks::OutputTensor;
using opendpu::tasks::sigmoid;
using proto::YoloV3Param;

constexpr int kAnchorsOfV7 = 3;

// A feature map whose cells hold, for each anchor, x, y, width, height, objectness and classes.
struct Map {
  Map(const OutputTensor& tensor, std::size_t sample, const YoloV3Param& param)
      : values(opendpu::tasks::values(tensor, sample)),
        height(static_cast<int>(tensor.height)),
        width(static_cast<int>(tensor.width)),
        anchors(param.anchorcnt()),
        fields(5 + param.num_classes()) {
    opendpu::tasks::check_classes(param.num_classes());
    if (anchors < 1 || tensor.channel != static_cast<std::size_t>(anchors * fields)) {
      throw std::runtime_error("output " + tensor.name + " has " + std::to_string(tensor.channel) +
                               " channels, but anchorCnt is " + std::to_string(anchors) +
                               " and num_classes " + std::to_string(param.num_classes()));
    }
  }

  std::vector<float> values;
  int height, width, anchors, fields;
};

void check_biases(const YoloV3Param& param, std::size_t maps) {
  const auto wanted = 2 * maps * param.anchorcnt();
  if (static_cast<std::size_t>(param.biases_size()) < wanted) {
    throw std::runtime_error("there are " + std::to_string(param.biases_size()) +
                             " biases, but must be " + std::to_string(wanted));
  }
}

// Adds the boxes of one map whose objectness counts, as shares of the input's size.
template <typename Counts>
void decode(const Map& map, const YoloV3Param& param, int first_bias, const InputTensor& input,
            Counts counts, std::vector<ClassBox>& boxes) {
  const bool scaled = param.type() == YoloV3Param::YOLOV4_CSP || param.type() == YoloV3Param::YOLOV5;
  const auto* cell = map.values.data();
  for (int row = 0; row < map.height; ++row) {
    for (int column = 0; column < map.width; ++column) {
      for (int anchor = 0; anchor < map.anchors; ++anchor, cell += map.fields) {
        if (!counts(cell[4])) continue;
        const float objectness = sigmoid(cell[4]);
        const float bias_x = param.biases(first_bias + 2 * anchor) / input.width;
        const float bias_y = param.biases(first_bias + 2 * anchor + 1) / input.height;
        ClassBox box;
        const float x = sigmoid(cell[0]), y = sigmoid(cell[1]);
        box.x = ((scaled ? 2 * x - 0.5f : x) + column) / map.width;
        box.y = ((scaled ? 2 * y - 0.5f : y) + row) / map.height;
        const float width = 2 * sigmoid(cell[2]), height = 2 * sigmoid(cell[3]);
        box.width = (scaled ? width * width : std::exp(cell[2])) * bias_x;
        box.height = (scaled ? height * height : std::exp(cell[3])) * bias_y;
        for (int c = 5; c < map.fields; ++c) box.scores.push_back(objectness * sigmoid(cell[c]));
        boxes.push_back(std::move(box));
      }
    }
  }
}

// Boxes were found in an image of some size in the middle of the input; takes that back.
void take_letterbox_back(std::vector<ClassBox>& boxes, const InputTensor& input, float inner_width,
                         float inner_height) {
  const float width = static_cast<float>(input.width), height = static_cast<float>(input.height);
  for (auto& box : boxes) {
    box.x = (box.x * width - (width - inner_width) / 2) / inner_width;
    box.y = (box.y * height - (height - inner_height) / 2) / inner_height;
    box.width *= width / inner_width;
    box.height *= height / inner_height;
  }
}

}  // namespace

YOLOv3Result yolov3_post_process(const std::vector<InputTensor>& input_tensors,
                                 const std::vector<OutputTensor>& output_tensors,
                                 const proto::DpuModelParam& config, const int w, const int h) {
  return yolov3_post_process(input_tensors, output_tensors, config, std::vector<int>{w},
                             std::vector<int>{h})
      .front();
}

std::vector<YOLOv3Result> yolov3_post_process(const std::vector<InputTensor>& input_tensors,
                                              const std::vector<OutputTensor>& output_tensors,
                                              const proto::DpuModelParam& config,
                                              const std::vector<int>& w,
                                              const std::vector<int>& h) {
  const auto& param = config.yolo_v3_param();
  const auto& input = input_tensors.at(0);
  const auto maps = opendpu::tasks::outputs_named(output_tensors, param.layer_name());
  check_biases(param, maps.size());
  std::vector<YOLOv3Result> results;
  for (std::size_t sample = 0; sample < w.size(); ++sample) {
    std::vector<ClassBox> boxes;
    // Anchors are listed from small to large, maps from coarse to fine.
    for (std::size_t i = 0; i < maps.size(); ++i) {
      const Map map(maps[maps.size() - 1 - i], sample, param);
      const auto counts = [&](float value) { return !(sigmoid(value) < param.conf_threshold()); };
      decode(map, param, static_cast<int>(2 * i) * param.anchorcnt(), input, counts, boxes);
    }
    if (param.test_map()) {
      const float ratio = std::min(static_cast<float>(input.width) / w[sample],
                                   static_cast<float>(input.height) / h.at(sample));
      take_letterbox_back(boxes, input, w[sample] * ratio, h[sample] * ratio);
    }
    YOLOv3Result result{static_cast<int>(input.width), static_cast<int>(input.height), {}};
    for (const auto& kept :
         opendpu::tasks::suppressed(boxes, 0, param.num_classes(), param.nms_threshold(),
                                    param.conf_threshold(), param.iou_type())) {
      result.bboxes.push_back(
          {kept.label, kept.score, kept.x, kept.y, kept.width, kept.height});
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::vector<YOLOv7Result> yolov7_post_process(const std::vector<InputTensor>& input_tensors,
                                              const std::vector<OutputTensor>& output_tensors,
                                              const proto::DpuModelParam& config,
                                              const std::vector<int>& w,
                                              const std::vector<int>& h) {
  const auto& given = config.yolo_v7_param();
  const auto& input = input_tensors.at(0);
  const auto maps = opendpu::tasks::outputs_named(output_tensors, given.detect_layer_name());
  YoloV3Param param;  // cells are those of YOLOv5
  param.set_type(YoloV3Param::YOLOV5);
  param.set_anchorcnt(kAnchorsOfV7);
  param.set_num_classes(given.num_classes());
  *param.mutable_biases() = given.biases();
  check_biases(param, maps.size());
  std::vector<YOLOv7Result> results;
  for (std::size_t sample = 0; sample < w.size(); ++sample) {
    std::vector<ClassBox> boxes;
    for (std::size_t i = 0; i < maps.size(); ++i) {
      const float lowest = opendpu::tasks::logit_of(maps[i], given.conf_thresh());
      const auto counts = [&](float value) { return value > lowest; };
      decode(Map(maps[i], sample, param), param, static_cast<int>(2 * i) * kAnchorsOfV7, input,
             counts, boxes);
    }
    const int width = static_cast<int>(input.width), height = static_cast<int>(input.height);
    const bool wide = static_cast<float>(width) / w[sample] < static_cast<float>(height) / h.at(sample);
    take_letterbox_back(boxes, input, wide ? width : w[sample] * height / h[sample],
                        wide ? h[sample] * width / w[sample] : height);
    YOLOv7Result result{width, height, {}};
    for (const auto& kept : opendpu::tasks::suppressed(
             boxes, 0, given.num_classes(), given.nms_threshold(), given.conf_thresh())) {
      if (!(kept.score > given.conf_thresh())) continue;
      result.bboxes.push_back({kept.label, kept.score, kept.x, kept.y, kept.width, kept.height});
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::vector<YOLOv2Result> yolov2_post_process(const std::vector<InputTensor>& input_tensors,
                                              const std::vector<OutputTensor>& output_tensors,
                                              const proto::DpuModelParam& config) {
  const auto& param = config.yolo_v3_param();
  const auto& input = input_tensors.at(0);
  const OutputTensor output =
      opendpu::tasks::outputs_named(output_tensors, param.layer_name()).at(0);
  check_biases(param, 1);
  std::vector<YOLOv2Result> results;
  for (std::size_t sample = 0; sample < output.batch; ++sample) {
    Map map(output, sample, param);
    std::vector<ClassBox> boxes;
    auto* cell = map.values.data();
    for (int row = 0; row < map.height; ++row) {
      for (int column = 0; column < map.width; ++column) {
        for (int anchor = 0; anchor < map.anchors; ++anchor, cell += map.fields) {
          const float objectness = sigmoid(cell[4]);
          if (!(objectness > param.conf_threshold())) continue;
          ClassBox box;
          box.x = (column + sigmoid(cell[0])) / map.width;
          box.y = (row + sigmoid(cell[1])) / map.height;
          box.width = std::exp(cell[2]) * param.biases(2 * anchor) / map.width;
          box.height = std::exp(cell[3]) * param.biases(2 * anchor + 1) / map.height;
          const float largest = *std::max_element(cell + 5, cell + map.fields);
          box.scores.assign(cell + 5, cell + map.fields);
          for (auto& score : box.scores) score -= largest;
          opendpu::tasks::softmax(box.scores.data(), box.scores.size());
          for (auto& score : box.scores) score *= objectness;
          boxes.push_back(std::move(box));
        }
      }
    }
    YOLOv2Result result{static_cast<int>(input.width), static_cast<int>(input.height), {}};
    for (const auto& kept : opendpu::tasks::suppressed(
             boxes, 0, param.num_classes(), param.nms_threshold(), param.conf_threshold())) {
      result.bboxes.push_back({kept.label, kept.score, std::max(kept.x, 0.f),
                               std::max(kept.y, 0.f), kept.width, kept.height});
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace ai
}  // namespace vitis
