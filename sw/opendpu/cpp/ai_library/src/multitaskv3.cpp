// SPDX-License-Identifier: Apache-2.0
// MultiTaskv3: images in; boxes, classes or colours of pixels and depth out.
#include "vitis/ai/multitaskv3.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "detections.hpp"
#include "one_by_one.hpp"
#include "outputs.hpp"
#include "vitis/ai/nnpp/segmentation.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::InputTensor;
using opendpu::tasks::OutputTensor;
using opendpu::tasks::sigmoid;

// Values of a box.
constexpr std::size_t kCode = 4;
constexpr float kFarthest = 80, kNearest = 1, kLevelsOfMetre = 3;

// As the board's processor does it: nothing below zero, and what is beyond 8 bits wraps.
std::uint8_t level(float value) {
  return static_cast<std::uint8_t>(static_cast<std::uint32_t>(std::max(value, 0.f)));
}

class Post : public MultiTaskv3PostProcess {
 public:
  Post(const InputTensor& input, const std::vector<OutputTensor>& outputs,
       const proto::DpuModelParam& config)
      : config_(config), input_(input) {
    const auto& param = config_.multi_task_param();
    if (param.loc_name().empty() || param.conf_name().empty() || param.centerness_name().empty()) {
      throw std::runtime_error(
          "multi_task_param has no loc_name, no conf_name or no centerness_name");
    }
    set_limits();
    auto maps = param.prior_box_param();
    for (auto& map : maps) {  // steps are always those of the maps
      map.clear_step_width();
      map.clear_step_height();
    }
    priors_ = opendpu::tasks::prior_boxes(maps, {false, false}, static_cast<int>(input.width),
                                          static_cast<int>(input.height));
    boxes_ = opendpu::tasks::outputs_named(outputs, param.loc_name());
    scores_ = opendpu::tasks::outputs_named(outputs, param.conf_name());
    middles_ = opendpu::tasks::outputs_named(outputs, param.centerness_name());
    opendpu::tasks::check_sizes(priors_.size(), limits_.classes, kCode,
                                opendpu::tasks::elements(boxes_),
                                opendpu::tasks::elements(scores_));
    if (opendpu::tasks::elements(middles_) != priors_.size()) {
      throw std::runtime_error("there are " + std::to_string(priors_.size()) +
                               " prior boxes, but outputs have " +
                               std::to_string(opendpu::tasks::elements(middles_)) +
                               " values of centerness");
    }
    const auto named = [&outputs](const char* field, const std::string& name) {
      if (name.empty()) throw std::runtime_error(std::string("multi_task_param has no ") + field);
      return opendpu::tasks::output_named(outputs, name);
    };
    pixels_ = {named("seg_name", param.seg_name()), named("lane_name", param.lane_name()),
               named("drivable_name", param.drivable_name())};
    depth_ = named("depth_name", param.depth_name());
  }

  std::vector<MultiTaskv3Result> post_process(std::size_t batch_size) override {
    const auto classes = [this](const OutputTensor& tensor) {
      return segmentation_post_process_8UC1(input_, tensor);
    };
    return joined(batch_size, classes, [](float value) { return level(value); });
  }
  std::vector<MultiTaskv3Result> post_process_visualization(std::size_t batch_size) override {
    const auto colours = [this](const OutputTensor& tensor) {
      return segmentation_post_process_8UC3(input_, tensor, config_);
    };
    return joined(batch_size, colours, [](float value) {
      return level(std::clamp(sigmoid(value) * kFarthest, kNearest, kFarthest) * kLevelsOfMetre);
    });
  }

 private:
  // No class is the background. The least threshold of the others counts for the first, too.
  void set_limits() {
    const auto& param = config_.multi_task_param();
    limits_ = {param.num_of_detection_classes(), {param.th_conf().begin(), param.th_conf().end()},
               param.nms_threshold(), param.top_k(), param.keep_top_k(), 0};
    auto& least = limits_.thresholds;
    if (least.size() > 1) {
      least[0] = std::max(least[0], *std::min_element(least.begin() + 1, least.end()));
    }
  }

  template <typename Pixels, typename Depth>
  std::vector<MultiTaskv3Result> joined(std::size_t batch_size, Pixels pixels, Depth depth) const {
    std::vector<std::vector<SegmentationResult>> seen;
    for (const auto& tensor : pixels_) seen.push_back(pixels(tensor));
    std::vector<MultiTaskv3Result> results;
    for (std::size_t sample = 0; sample < batch_size; ++sample) {
      const auto values = opendpu::tasks::values(depth_, sample);
      cv::Mat depths(static_cast<int>(depth_.height), static_cast<int>(depth_.width), CV_8UC1);
      for (int row = 0; row < depths.rows; ++row) {
        const float* line = &values[static_cast<std::size_t>(row) * depth_.width];
        std::transform(line, line + depth_.width, depths.ptr<std::uint8_t>(row), depth);
      }
      results.push_back({static_cast<int>(input_.width), static_cast<int>(input_.height),
                         vehicles(sample), seen[0].at(sample).segmentation,
                         seen[1].at(sample).segmentation, seen[2].at(sample).segmentation, depths});
    }
    return results;
  }

  std::vector<Vehiclev3Result> vehicles(std::size_t sample) const {
    const auto codes = opendpu::tasks::values(boxes_, sample);
    const auto middles = opendpu::tasks::values(middles_, sample);
    auto scores = opendpu::tasks::values(scores_, sample);
    const auto classes = static_cast<std::size_t>(limits_.classes);
    std::vector<opendpu::tasks::Box> boxes;
    boxes.reserve(priors_.size());
    for (std::size_t i = 0; i < priors_.size(); ++i) {
      boxes.push_back(
          opendpu::tasks::clipped(opendpu::tasks::decoded(&codes[kCode * i], priors_[i])));
      for (std::size_t c = 0; c < classes; ++c) {
        auto& score = scores[i * classes + c];
        score = sigmoid(score) * sigmoid(middles[i]);
      }
    }
    std::vector<Vehiclev3Result> found;
    for (const auto& one : opendpu::tasks::detections(scores, boxes, limits_)) {
      const auto& box = boxes[one.prior];
      found.push_back({one.label, one.score, box[0] - box[2] / 2, box[1] - box[3] / 2, box[2],
                       box[3], 0});
    }
    return found;
  }

  proto::DpuModelParam config_;
  InputTensor input_;
  opendpu::tasks::DetectionLimits limits_;
  std::vector<opendpu::tasks::Prior> priors_;
  std::vector<OutputTensor> boxes_, scores_, middles_, pixels_;
  OutputTensor depth_;
};

class MultiTaskv3Imp : public MultiTaskv3 {
 public:
  MultiTaskv3Imp(const std::string& name, bool need_preprocess)
      : MultiTaskv3(name, need_preprocess),
        post_(MultiTaskv3PostProcess::create(configurable_dpu_task_->getInputTensor(),
                                             configurable_dpu_task_->getOutputTensor(),
                                             configurable_dpu_task_->getConfig())) {}

  MultiTaskv3Result run_8UC1(const cv::Mat& image) override {
    compute(image);
    return post_->post_process(1).front();
  }
  MultiTaskv3Result run_8UC3(const cv::Mat& image) override {
    compute(image);
    return post_->post_process_visualization(1).front();
  }
  std::vector<MultiTaskv3Result> run_8UC1(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images,
                                      [this](const cv::Mat& image) { return run_8UC1(image); });
  }
  std::vector<MultiTaskv3Result> run_8UC3(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images,
                                      [this](const cv::Mat& image) { return run_8UC3(image); });
  }

 private:
  void compute(const cv::Mat& image) {
    auto& task = *configurable_dpu_task_;
    task.setInputImageRGB(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
  }

  std::unique_ptr<MultiTaskv3PostProcess> post_;
};

}  // namespace

std::unique_ptr<MultiTaskv3PostProcess> MultiTaskv3PostProcess::create(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors,
    const proto::DpuModelParam& config) {
  return std::make_unique<Post>(input_tensors.at(0).at(0), output_tensors.at(0), config);
}

std::unique_ptr<MultiTaskv3> MultiTaskv3::create(const std::string& model_name,
                                                 bool need_preprocess) {
  return std::make_unique<MultiTaskv3Imp>(model_name, need_preprocess);
}

std::unique_ptr<MultiTaskv38UC1> MultiTaskv38UC1::create(const std::string& model_name,
                                                         bool need_preprocess) {
  return std::make_unique<MultiTaskv38UC1>(MultiTaskv3::create(model_name, need_preprocess));
}

std::unique_ptr<MultiTaskv38UC3> MultiTaskv38UC3::create(const std::string& model_name,
                                                         bool need_preprocess) {
  return std::make_unique<MultiTaskv38UC3>(MultiTaskv3::create(model_name, need_preprocess));
}

}  // namespace ai
}  // namespace vitis
