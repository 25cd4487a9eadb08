// SPDX-License-Identifier: Apache-2.0
// TFSSD: images in, boxes out.
#include "vitis/ai/tfssd.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <stdexcept>

#include "detections.hpp"
#include "files.hpp"
#include "one_by_one.hpp"
#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::InputTensor;
using opendpu::tasks::OutputTensor;
using opendpu::tasks::Prior;
using proto::PostProcessing;
using proto::SsdAnchorGenerator;

// Defaults of the API's own schema.
constexpr int kLayers = 6, kDetections = 100;
constexpr float kMinScale = 0.2f, kMaxScale = 0.95f, kInterpolatedRatio = 1.f, kIou = 0.6f;
constexpr float kPlaceScale = 10.f, kSizeScale = 5.f;

// An anchor's share of the input's shorter side, and its width over its height.
struct Shape {
  float scale, ratio;
};

std::vector<Shape> shapes(const SsdAnchorGenerator& given, int layer,
                          const std::vector<float>& scales) {
  const bool reduced =
      !given.has_reduce_boxes_in_lowest_layer() || given.reduce_boxes_in_lowest_layer();
  if (layer == 0 && reduced) return {{0.1f, 1.f}, {scales[0], 2.f}, {scales[0], 0.5f}};
  std::vector<Shape> made;
  const auto i = static_cast<std::size_t>(layer);
  for (const float ratio : given.aspect_ratios()) made.push_back({scales[i], ratio});
  const float between = given.has_interpolated_scale_aspect_ratio()
                            ? given.interpolated_scale_aspect_ratio()
                            : kInterpolatedRatio;
  if (between > 0) made.push_back({std::sqrt(scales[i] * scales[i + 1]), between});
  return made;
}

// Anchors by map, row, column and shape; `maps` are pairs of height and width.
std::vector<Prior> anchors(const SsdAnchorGenerator& given, const std::vector<int>& maps,
                           const InputTensor& input, const std::array<float, 4>& variances) {
  const int layers = given.has_num_layers() ? given.num_layers() : kLayers;
  if (layers < 2 || maps.size() != 2 * static_cast<std::size_t>(layers)) {
    throw std::runtime_error("feature_map_list has " + std::to_string(maps.size()) +
                             " numbers, but " + std::to_string(layers) + " layers have two each");
  }
  const float low = given.has_min_scale() ? given.min_scale() : kMinScale;
  const float high = given.has_max_scale() ? given.max_scale() : kMaxScale;
  std::vector<float> scales;
  for (int i = 0; i < layers; ++i) scales.push_back(low + (high - low) * i / (layers - 1));
  scales.push_back(1.f);
  const float width = static_cast<float>(input.width), height = static_cast<float>(input.height);
  const float shorter = std::min(width, height);
  std::vector<Prior> made;
  for (int layer = 0; layer < layers; ++layer) {
    const auto theirs = shapes(given, layer, scales);
    const int rows = maps[2 * layer], columns = maps[2 * layer + 1];
    opendpu::tasks::check_number(made.size(), static_cast<double>(rows) * columns *
                                                  static_cast<double>(theirs.size()));
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column) {
        for (const auto& [scale, ratio] : theirs) {
          const float root = std::sqrt(ratio);
          made.push_back({(column + 0.5f) / columns, (row + 0.5f) / rows,
                          scale * root * shorter / width, scale / root * shorter / height,
                          variances});
        }
      }
    }
  }
  return made;
}

class Post : public TFSSDPostProcess {
 public:
  Post(const proto::Ssd& model, const InputTensor& input, const std::vector<OutputTensor>& outputs,
       const proto::TfssdParam& param, int& batch)
      : batch_(batch),
        width_(static_cast<int>(input.width)),
        height_(static_cast<int>(input.height)),
        converter_(model.post_processing().score_converter()) {
    if (!model.anchor_generator().has_ssd_anchor_generator()) {
      throw std::runtime_error("the pipeline configuration has no ssd_anchor_generator");
    }
    const auto& coder = model.box_coder().faster_rcnn_box_coder();
    priors_ = anchors(model.anchor_generator().ssd_anchor_generator(),
                      {param.feature_map_list().begin(), param.feature_map_list().end()}, input,
                      {1 / (coder.has_x_scale() ? coder.x_scale() : kPlaceScale),
                       1 / (coder.has_y_scale() ? coder.y_scale() : kPlaceScale),
                       1 / (coder.has_width_scale() ? coder.width_scale() : kSizeScale),
                       1 / (coder.has_height_scale() ? coder.height_scale() : kSizeScale)});
    const auto& nms = model.post_processing().batch_non_max_suppression();
    limits_.classes = model.num_classes() + 1;
    limits_.thresholds = {nms.score_threshold()};
    limits_.nms = nms.has_iou_threshold() ? nms.iou_threshold() : kIou;
    limits_.top_k =
        nms.has_max_detections_per_class() ? nms.max_detections_per_class() : kDetections;
    limits_.keep_top_k = nms.has_max_total_detections() ? nms.max_total_detections() : kDetections;
    for (const auto& info : param.output_info()) {
      (info.type() == proto::TfssdParam::OutputInfo::BBOX ? boxes_ : scores_)
          .push_back(opendpu::tasks::output_named(outputs, info.name()));
    }
    opendpu::tasks::check_sizes(priors_.size(), limits_.classes, 4,
                                opendpu::tasks::elements(boxes_),
                                opendpu::tasks::elements(scores_));
  }

  TFSSDResult ssd_post_process(unsigned int idx) override {
    const auto codes = opendpu::tasks::values(boxes_, idx);
    auto scores = opendpu::tasks::values(scores_, idx);
    convert(scores);
    std::vector<opendpu::tasks::Box> boxes;
    boxes.reserve(priors_.size());
    for (std::size_t i = 0; i < priors_.size(); ++i) {
      boxes.push_back(opendpu::tasks::decoded(&codes[4 * i], priors_[i], true));
    }
    TFSSDResult result{width_, height_, {}};
    for (const auto& one : opendpu::tasks::detections(scores, boxes, limits_)) {
      const auto& box = boxes[one.prior];
      result.bboxes.push_back({one.label, one.score, box[0] - box[2] / 2, box[1] - box[3] / 2,
                               box[2], box[3]});
    }
    return result;
  }
  std::vector<TFSSDResult> ssd_post_process() override {
    std::vector<TFSSDResult> results;
    for (int sample = 0; sample < batch_; ++sample) {
      results.push_back(ssd_post_process(static_cast<unsigned int>(sample)));
    }
    return results;
  }

 private:
  void convert(std::vector<float>& scores) const {
    if (converter_ == PostProcessing::SIGMOID) {
      for (auto& score : scores) score = opendpu::tasks::sigmoid(score);
    } else if (converter_ == PostProcessing::SOFTMAX) {
      const auto classes = static_cast<std::size_t>(limits_.classes);
      for (std::size_t i = 0; i < priors_.size(); ++i) {
        opendpu::tasks::softmax(&scores[i * classes], classes);
      }
    }
  }

  int& batch_;
  int width_, height_;
  PostProcessing::ScoreConverter converter_;
  opendpu::tasks::DetectionLimits limits_;
  std::vector<Prior> priors_;
  std::vector<OutputTensor> boxes_, scores_;
};

class TFSSDImp : public TFSSD {
 public:
  TFSSDImp(const std::string& name, xir::Attrs* attrs, bool need_preprocess)
      : TFSSD(name, attrs, need_preprocess),
        post_(TFSSDPostProcess::create(
            name, configurable_dpu_task_->getInputTensor()[0],
            configurable_dpu_task_->getOutputTensor()[0], configurable_dpu_task_->getConfig(),
            std::filesystem::path(opendpu::tasks::find_model(name)).parent_path().string(),
            batch_)) {}

  TFSSDResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageRGB(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    return post_->ssd_post_process(0);
  }
  std::vector<TFSSDResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }

 private:
  int batch_ = 1;
  std::unique_ptr<TFSSDPostProcess> post_;
};

}  // namespace

std::unique_ptr<TFSSDPostProcess> TFSSDPostProcess::create(
    const std::string& model_name, const std::vector<InputTensor>& input_tensors,
    const std::vector<OutputTensor>& output_tensors, const proto::DpuModelParam& config,
    const std::string& dirname, int& real_batch_size) {
  const auto pipeline = opendpu::tasks::read_pipeline(dirname, model_name);
  return std::make_unique<Post>(pipeline.model().ssd(), input_tensors.at(0), output_tensors,
                                config.tfssd_param(), real_batch_size);
}

std::unique_ptr<TFSSD> TFSSD::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<TFSSD> TFSSD::create(const std::string& model_name, xir::Attrs* attrs,
                                     bool need_preprocess) {
  return std::make_unique<TFSSDImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
