// SPDX-License-Identifier: Apache-2.0
// EfficientDetD2: images in, boxes out.
#include "vitis/ai/efficientdet_d2.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

#include "one_by_one.hpp"
#include "outputs.hpp"
#include "prior_boxes.hpp"
#include "vitis/ai/nnpp/apply_nms.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::InputTensor;
using opendpu::tasks::OutputTensor;
using opendpu::tasks::sigmoid;
using proto::EfficientDetD2Param;

// Levels are powers of two pixels of the input apart.
constexpr int kHighestLevel = 12;

// A box that is sure enough: the top left corner and the size, in pixels of the input.
struct Found {
  int label;
  float score;
  std::vector<float> place;
};

// Centre and size in pixels of the input.
struct Anchor {
  float x, y, width, height;
};

// What is found at one level.
class Level {
 public:
  Level(int level, const InputTensor& input, const EfficientDetD2Param& param,
        const std::vector<OutputTensor>& outputs)
      : stride_x_(stride(level, input.width)), stride_y_(stride(level, input.height)),
        classes_(static_cast<std::size_t>(param.num_classes())) {
    const auto& info = param.anchor_info();
    const float size = info.anchor_scales(level - info.min_level());
    for (int octave = 0; octave < info.num_scales(); ++octave) {
      const float scale =
          size * std::exp2(static_cast<float>(octave) / static_cast<float>(info.num_scales()));
      for (const float ratio : info.aspect_ratio()) {
        shapes_.push_back({scale * static_cast<float>(stride_x_) * std::sqrt(ratio),
                           scale * static_cast<float>(stride_y_) / std::sqrt(ratio)});
      }
    }
    for (const auto& output : param.output_info()) {
      if (output.level() != level) continue;
      auto& kept = output.type() == EfficientDetD2Param::OutputInfo::CONF ? scores_ : places_;
      kept = opendpu::tasks::output_named(outputs, output.name());
    }
    check(places_, 4, level);
    check(scores_, classes_, level);
  }

  // Adds boxes whose score is at least a threshold, but for what it misses by less than a step.
  void decode(std::size_t sample, float threshold, std::vector<Found>& found) const {
    const auto places = opendpu::tasks::values(places_, sample);
    const auto scores = opendpu::tasks::values(scores_, sample);
    const float step = library::tensor_scale(scores_);
    const float lowest = std::floor(std::log(threshold / (1 - threshold)) / step) * step;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (scores[i] < lowest) continue;
      const auto box = i / classes_;
      found.push_back({static_cast<int>(i % classes_), sigmoid(scores[i]),
                       moved(&places[4 * box], anchor(box))});
    }
  }

 private:
  struct Shape {
    float width, height;
  };

  static int stride(int level, std::size_t side) {
    const auto cells = side >> level;
    if (cells == 0) {
      throw std::runtime_error("the input has no cell of level " + std::to_string(level));
    }
    return static_cast<int>(side / cells);
  }

  void check(const OutputTensor& tensor, std::size_t values, int level) const {
    if (tensor.name.empty()) {
      throw std::runtime_error("efficientdet_d2_param names no output for boxes or classes of level " +
                               std::to_string(level));
    }
    if (tensor.channel == values * shapes_.size() && tensor.width == places_.width &&
        tensor.height == places_.height) {
      return;
    }
    throw std::runtime_error("output " + tensor.name + " has " + std::to_string(tensor.channel) +
                             " channels, but " + std::to_string(shapes_.size()) +
                             " anchors have " + std::to_string(values) + " each, in the same cells");
  }

  Anchor anchor(std::size_t box) const {
    const auto& shape = shapes_[box % shapes_.size()];
    const auto cell = box / shapes_.size();
    const auto column = static_cast<int>(cell % places_.width);
    const auto row = static_cast<int>(cell / places_.width);
    return {static_cast<float>(stride_x_ / 2 + column * stride_x_),
            static_cast<float>(stride_y_ / 2 + row * stride_y_), shape.width, shape.height};
  }

  static std::vector<float> moved(const float* code, const Anchor& anchor) {
    const float height = std::exp(code[2]) * anchor.height, width = std::exp(code[3]) * anchor.width;
    const float y = code[0] * anchor.height + anchor.y, x = code[1] * anchor.width + anchor.x;
    return {x - width / 2, y - height / 2, width, height};
  }

  int stride_x_, stride_y_;
  std::size_t classes_;
  std::vector<Shape> shapes_;
  OutputTensor places_, scores_;
};

void keep_surest(std::vector<Found>& found, int number) {
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.score > b.score; });
  found.resize(std::min(found.size(), static_cast<std::size_t>(std::max(number, 0))));
}

class PostProcess : public EfficientDetD2PostProcess {
 public:
  PostProcess(const InputTensor& input, const std::vector<OutputTensor>& outputs,
              const EfficientDetD2Param& param)
      : param_(param) {
    opendpu::tasks::check_classes(param.num_classes());
    const auto& info = param.anchor_info();
    const int levels = info.max_level() - info.min_level() + 1;
    if (info.min_level() < 0 || info.max_level() > kHighestLevel || levels < 1 ||
        info.anchor_scales_size() < levels) {
      throw std::runtime_error("efficientdet_d2_param has levels " +
                               std::to_string(info.min_level()) + " to " +
                               std::to_string(info.max_level()) + " and " +
                               std::to_string(info.anchor_scales_size()) + " anchor_scales");
    }
    opendpu::tasks::check_number(0, static_cast<double>(info.num_scales()) *
                                        info.aspect_ratio_size());
    for (int level = info.min_level(); level <= info.max_level(); ++level) {
      levels_.emplace_back(level, input, param, outputs);
    }
  }

  std::vector<EfficientDetD2Result> postprocess(
      std::size_t batch_size, const std::vector<int>& swidths, const std::vector<int>& sheights,
      const std::vector<float>& image_scales) override {
    std::vector<EfficientDetD2Result> results;
    for (std::size_t sample = 0; sample < batch_size; ++sample) {
      EfficientDetD2Result result{swidths.at(sample), sheights.at(sample), {}};
      const float wide = image_scales.at(sample) * static_cast<float>(result.width);
      const float high = image_scales.at(sample) * static_cast<float>(result.height);
      for (const auto& [label, score, place] : remaining(sample)) {
        result.bboxes.push_back({label, score, place[0] / wide, place[1] / high, place[2] / wide,
                                 place[3] / high});
      }
      results.push_back(std::move(result));
    }
    return results;
  }

 private:
  std::vector<Found> remaining(std::size_t sample) const {
    std::vector<Found> found, made;
    for (const auto& level : levels_) level.decode(sample, param_.conf_threshold(), found);
    keep_surest(found, param_.pre_nms_num());
    for (int label = 0; label < param_.num_classes(); ++label) {
      std::vector<std::vector<float>> places;
      std::vector<float> scores;
      std::vector<std::size_t> kept;
      for (const auto& one : found) {
        if (one.label != label) continue;
        // The library compares boxes by their top left corners instead of their centres.
        places.push_back(one.place);
        scores.push_back(one.score);
      }
      applyNMS(places, scores, param_.nms_threshold(), param_.conf_threshold(), kept);
      for (const auto i : kept) made.push_back({label, scores[i], places[i]});
    }
    keep_surest(made, param_.nms_output_num());
    return made;
  }

  EfficientDetD2Param param_;
  std::vector<Level> levels_;
};

class EfficientDetD2Imp : public EfficientDetD2 {
 public:
  EfficientDetD2Imp(const std::string& name, xir::Attrs* attrs, bool need_preprocess)
      : EfficientDetD2(name, attrs, need_preprocess),
        post_(EfficientDetD2PostProcess::create(configurable_dpu_task_->getInputTensor()[0],
                                                configurable_dpu_task_->getOutputTensor()[0],
                                                configurable_dpu_task_->getConfig())) {}

  EfficientDetD2Result run(const cv::Mat& image) override {
    const float scale = set(image);
    configurable_dpu_task_->run(0);
    return post_->postprocess(1, {image.cols}, {image.rows}, {scale}).front();
  }
  std::vector<EfficientDetD2Result> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }

 private:
  // The image in the input's corner, as large as it fits, with elements of 0 beside it; returns how
  // many times as large it is there.
  float set(const cv::Mat& image) {
    if (image.empty()) throw std::invalid_argument("the image is empty");
    auto& task = *configurable_dpu_task_;
    const int width = getInputWidth(), height = getInputHeight();
    const float scale = std::min(static_cast<float>(width) / static_cast<float>(image.cols),
                                 static_cast<float>(height) / static_cast<float>(image.rows));
    const auto size = [scale](int side) {
      return std::max(1, static_cast<int>(std::round(static_cast<float>(side) * scale)));
    };
    const auto inner = opendpu::tasks::resized(image, size(image.cols), size(image.rows));
    cv::Mat whole = cv::Mat::zeros(height, width, CV_8UC3);
    inner.copyTo(whole(cv::Rect(0, 0, inner.cols, inner.rows)));
    task.setInputImageRGB(whole);
    const auto tensor = task.getInputTensor()[0].at(0);
    auto* elements = static_cast<char*>(tensor.get_data(0));
    const std::size_t pixel = tensor.size / tensor.batch / tensor.height / tensor.width;
    for (int row = 0; row < height; ++row) {
      const int begin = row < inner.rows ? inner.cols : 0;
      std::memset(elements + pixel * (static_cast<std::size_t>(row) * tensor.width +
                                      static_cast<std::size_t>(begin)),
                  0, pixel * static_cast<std::size_t>(width - begin));
    }
    return scale;
  }

  std::unique_ptr<EfficientDetD2PostProcess> post_;
};

}  // namespace

std::unique_ptr<EfficientDetD2PostProcess> EfficientDetD2PostProcess::create(
    const std::vector<InputTensor>& input_tensors, const std::vector<OutputTensor>& output_tensors,
    const proto::DpuModelParam& config) {
  return std::make_unique<PostProcess>(input_tensors.at(0), output_tensors,
                                       config.efficientdet_d2_param());
}

std::unique_ptr<EfficientDetD2> EfficientDetD2::create(const std::string& model_name,
                                                       bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<EfficientDetD2> EfficientDetD2::create(const std::string& model_name,
                                                       xir::Attrs* attrs, bool need_preprocess) {
  return std::make_unique<EfficientDetD2Imp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
