// SPDX-License-Identifier: Apache-2.0
// YOLOv6: images in, boxes out.
#include "vitis/ai/yolov6.hpp"

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
using proto::YoloV6Param;

// An output for places and one for classes, with the same cells.
struct Map {
  Map(const OutputTensor& box, const OutputTensor& cls, std::size_t sample,
      const YoloV6Param& param)
      : places(opendpu::tasks::values(box, sample)),
        classes(opendpu::tasks::values(cls, sample)),
        width(cls.width),
        anchors(static_cast<std::size_t>(std::max(param.anchorcnt(), 0))),
        labels(static_cast<std::size_t>(param.num_classes())),
        boxes(cls.height * cls.width * anchors) {
    if (anchors > 0 && classes.size() == boxes * labels && places.size() == 4 * boxes) return;
    throw std::runtime_error("outputs " + box.name + " and " + cls.name + " have " +
                             std::to_string(places.size()) + " and " +
                             std::to_string(classes.size()) + " values, but anchorCnt is " +
                             std::to_string(anchors) + " and num_classes " +
                             std::to_string(labels));
  }

  std::vector<float> places, classes;
  std::size_t width, anchors, labels, boxes;
};

// `lowest` is what a class must reach; of equal classes the last counts.
void decode(const Map& map, float lowest, float stride, const proto::DpuModelParam& config,
            std::vector<PixelBox>& found) {
  const bool planar = !config.yolo_v6_param().without_dfl();
  for (std::size_t i = 0; i < map.boxes; ++i) {
    const float* classes = &map.classes[i * map.labels];
    std::size_t best = 0;
    for (std::size_t c = 1; c < map.labels; ++c) best = classes[c] >= classes[best] ? c : best;
    if (classes[best] < lowest) continue;
    const auto at = [&](std::size_t side) {
      return map.places[planar ? side * map.boxes + i : 4 * i + side];
    };
    const std::size_t cell = i / map.anchors;
    auto place = opendpu::tasks::around(static_cast<float>(cell % map.width) + 0.5f,
                                        static_cast<float>(cell / map.width) + 0.5f,
                                        {at(0), at(1), at(2), at(3)}, stride);
    const float score =
        config.use_graph_runner() ? classes[best] : opendpu::tasks::sigmoid(classes[best]);
    // The library compares boxes by their top left corners instead of their centres.
    place[0] -= place[2] / 2;
    place[1] -= place[3] / 2;
    found.push_back({static_cast<int>(best), score, place});
  }
}

class YOLOv6Imp : public YOLOv6 {
 public:
  YOLOv6Imp(const std::string& name, xir::Attrs* attrs, bool need_preprocess)
      : YOLOv6(name, attrs, need_preprocess) {
    const auto& config = configurable_dpu_task_->getConfig();
    if (!config.use_graph_runner() && !config.yolo_v6_param().without_dfl()) {
      throw std::runtime_error(
          "yolo_v6_param has no without_dfl: distributions of distances that the CPU computes "
          "between DPU subgraphs are not supported; use_graph_runner runs the whole graph");
    }
  }

  YOLOv6Result run(const cv::Mat& image) override {
    return opendpu::tasks::run_centred(
        *configurable_dpu_task_,
        opendpu::tasks::centred_with_margin(image, getInputWidth(), getInputHeight()),
        yolov6_post_process);
  }
  std::vector<YOLOv6Result> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
};

}  // namespace

std::vector<YOLOv6Result> yolov6_post_process(
    const std::vector<library::InputTensor>&,
    const std::vector<library::OutputTensor>& output_tensors, const proto::DpuModelParam& config,
    const std::vector<float>& scales, const std::vector<int>& left_padding,
    const std::vector<int>& top_padding) {
  const auto& param = config.yolo_v6_param();
  opendpu::tasks::check_classes(param.num_classes());
  const int maps = param.bbox_layer_name_size();
  if (maps == 0 || param.cls_layer_name_size() != maps || param.stride_size() < maps) {
    throw std::runtime_error("yolo_v6_param has " + std::to_string(maps) + " bbox_layer_name, " +
                             std::to_string(param.cls_layer_name_size()) + " cls_layer_name and " +
                             std::to_string(param.stride_size()) + " stride");
  }
  const float threshold = param.conf_threshold();
  std::vector<YOLOv6Result> results;
  for (std::size_t sample = 0; sample < scales.size(); ++sample) {
    std::vector<PixelBox> found;
    for (int i = maps; i-- > 0;) {
      const auto& box = opendpu::tasks::output_named(output_tensors, param.bbox_layer_name(i));
      const auto& cls = opendpu::tasks::output_named(output_tensors, param.cls_layer_name(i));
      const float lowest =
          config.use_graph_runner() ? threshold : opendpu::tasks::logit_of(cls, threshold);
      decode(Map(box, cls, sample, param), lowest, param.stride(i), config, found);
    }
    found = opendpu::tasks::suppressed(found, param.num_classes(), param.nms_threshold(),
                                       threshold);
    opendpu::tasks::keep_surest(found, param.max_nms_num());
    found.erase(std::remove_if(found.begin(), found.end(),
                               [&](const PixelBox& box) { return !(box.score > threshold); }),
                found.end());
    for (auto& box : found) {
      box.place[0] += box.place[2] / 2;
      box.place[1] += box.place[3] / 2;
    }
    results.push_back(opendpu::tasks::result_of<YOLOv6Result>(
        found, scales[sample], left_padding.at(sample), top_padding.at(sample)));
  }
  return results;
}

std::unique_ptr<YOLOv6> YOLOv6::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<YOLOv6> YOLOv6::create(const std::string& model_name, xir::Attrs* attrs,
                                       bool need_preprocess) {
  return std::make_unique<YOLOv6Imp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
