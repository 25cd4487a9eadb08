// SPDX-License-Identifier: Apache-2.0
// YOLOX: images in, boxes out.
#include "vitis/ai/yolovx.hpp"

#include <algorithm>
#include <cmath>
#include <opencv2/imgproc.hpp>
#include <stdexcept>

#include "one_by_one.hpp"
#include "outputs.hpp"
#include "vitis/ai/nnpp/apply_nms.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::OutputTensor;
using opendpu::tasks::sigmoid;
using proto::YoloV3Param;

// The value of pixels beside the image.
constexpr int kGrey = 114;

// The image at the top left of the input, with its proportions, and how much larger it is there.
std::pair<cv::Mat, float> fitted(const cv::Mat& image, int width, int height) {
  const float scale = std::min(static_cast<float>(width) / image.cols,
                               static_cast<float>(height) / image.rows);
  const auto inner = opendpu::tasks::resized(image, static_cast<int>(image.cols * scale),
                                             static_cast<int>(image.rows * scale));
  cv::Mat made;
  cv::copyMakeBorder(inner, made, 0, height - inner.rows, 0, width - inner.cols,
                     cv::BORDER_CONSTANT, cv::Scalar::all(kGrey));
  return {made, scale};
}

// Centre and size in pixels of the input, of those with a label.
struct Found {
  std::vector<std::vector<float>> places;
  std::vector<float> scores;
};

void decode(const OutputTensor& tensor, std::size_t sample, float stride, const YoloV3Param& param,
            std::vector<Found>& found) {
  const auto values = opendpu::tasks::values(tensor, sample);
  const auto fields = static_cast<std::size_t>(5 + param.num_classes());
  const auto anchors = static_cast<std::size_t>(param.anchorcnt());
  if (tensor.channel != anchors * fields || anchors == 0) {
    throw std::runtime_error("output " + tensor.name + " has " + std::to_string(tensor.channel) +
                             " channels, but anchorCnt is " + std::to_string(anchors) +
                             " and num_classes " + std::to_string(param.num_classes()));
  }
  for (std::size_t i = 0; i < values.size() / fields; ++i) {
    const float* cell = &values[i * fields];
    const float objectness = sigmoid(cell[4]);
    if (objectness < param.conf_threshold()) continue;
    const auto place = i / anchors;
    // Of equal classes the last counts.
    std::size_t best = 5;
    for (std::size_t c = 5; c < fields; ++c) best = cell[c] >= cell[best] ? c : best;
    const float score = objectness * sigmoid(cell[best]);
    if (score < param.conf_threshold()) continue;
    auto& others = found[best - 5];
    others.scores.push_back(score);
    others.places.push_back({(static_cast<float>(place % tensor.width) + cell[0]) * stride,
                             (static_cast<float>(place / tensor.width) + cell[1]) * stride,
                             std::exp(cell[2]) * stride, std::exp(cell[3]) * stride});
  }
}

// Of one class, in pixels of the image.
void add(int label, Found& found, const YoloV3Param& param, float scale, YOLOvXResult& result) {
  auto seen = found.places;
  if (param.type() == YoloV3Param::YOLOX_NANO) {
    // The library compares these by their top left corners instead of their centres.
    for (auto& box : seen) box = {box[0] - box[2] / 2, box[1] - box[3] / 2, box[2], box[3]};
  }
  std::vector<std::size_t> kept;
  applyNMS(seen, found.scores, param.nms_threshold(), param.conf_threshold(), kept, false,
           param.iou_type());
  for (const auto i : kept) {
    if (!(found.scores[i] > param.conf_threshold())) continue;
    const auto& box = found.places[i];
    const float left = (box[0] - box[2] / 2) / scale, top = (box[1] - box[3] / 2) / scale;
    result.bboxes.push_back({label, found.scores[i],
                             {left, top, left + box[2] / scale, top + box[3] / scale}});
  }
}

class YOLOvXImp : public YOLOvX {
 public:
  using YOLOvX::YOLOvX;

  YOLOvXResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    const auto [input, scale] = fitted(image, getInputWidth(), getInputHeight());
    task.setInputImageBGR(input);
    task.run(0);
    return yolovx_post_process(task.getInputTensor()[0], task.getOutputTensor()[0],
                               task.getConfig(), {scale})
        .front();
  }
  std::vector<YOLOvXResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
};

}  // namespace

std::vector<YOLOvXResult> yolovx_post_process(
    const std::vector<library::InputTensor>&,
    const std::vector<library::OutputTensor>& output_tensors, const proto::DpuModelParam& config,
    const std::vector<float>& scale) {
  const auto& param = config.yolo_v5_param().yolo_param();
  const auto& strides = config.yolo_v5_param().stride();
  opendpu::tasks::check_classes(param.num_classes());
  const auto maps = opendpu::tasks::outputs_named(output_tensors, param.layer_name());
  if (static_cast<std::size_t>(strides.size()) < maps.size()) {
    throw std::runtime_error("there are " + std::to_string(strides.size()) + " strides, but " +
                             std::to_string(maps.size()) + " outputs");
  }
  std::vector<YOLOvXResult> results;
  for (std::size_t sample = 0; sample < scale.size(); ++sample) {
    std::vector<Found> found(static_cast<std::size_t>(param.num_classes()));
    for (std::size_t i = maps.size(); i-- > 0;) {
      decode(maps[i], sample, strides[static_cast<int>(i)], param, found);
    }
    YOLOvXResult result;
    for (std::size_t label = 0; label < found.size(); ++label) {
      add(static_cast<int>(label), found[label], param, scale[sample], result);
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::unique_ptr<YOLOvX> YOLOvX::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<YOLOvX> YOLOvX::create(const std::string& model_name, xir::Attrs* attrs,
                                       bool need_preprocess) {
  return std::make_unique<YOLOvXImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
