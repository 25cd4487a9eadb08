// SPDX-License-Identifier: Apache-2.0
// RetinaNet: images in, boxes out.
#include "vitis/ai/retinanet.hpp"

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

// Sides of the finest level's anchors, in pixels; doubled from level to level.
constexpr float kFinest = 32;
constexpr float kRatios[] = {0.5f, 1.f, 2.f};  // of height to width
constexpr std::size_t kScales = 3;             // equal parts of an octave
constexpr std::size_t kAnchors = 3 * kScales;

// What is found at one level. A place is left, top, right and bottom.
class Level {
 public:
  Level(int number, const InputTensor& input, const OutputTensor& classes,
        const OutputTensor& places)
      : size_(std::ldexp(kFinest, number)), width_(static_cast<float>(input.width)),
        height_(static_cast<float>(input.height)), classes_(classes), places_(places) {
    if (classes.channel % kAnchors == 0 && classes.width == places.width &&
        classes.height == places.height && places.channel == 4 * kAnchors) {
      return;
    }
    throw std::runtime_error("outputs " + classes.name + " and " + places.name + " have " +
                             std::to_string(classes.channel) + " and " +
                             std::to_string(places.channel) +
                             " channels, but nine anchors have some classes and four values each, "
                             "in the same cells");
  }

  int classes() const { return static_cast<int>(classes_.channel / kAnchors); }

  // Adds the surest boxes with a score of at least a threshold, but for those that are too small.
  void decode(std::size_t sample, const proto::RetinaNetParam& param,
              std::vector<PixelBox>& found) const {
    const auto scores = opendpu::tasks::values(classes_, sample);
    const auto codes = opendpu::tasks::values(places_, sample);
    const float lowest = -std::log(1 / param.conf_threshold() - 1);
    const auto number = static_cast<std::size_t>(classes());
    struct Chosen {
      std::size_t index;
      float score;
    };
    std::vector<Chosen> chosen;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (scores[i] >= lowest) chosen.push_back({i, opendpu::tasks::sigmoid(scores[i])});
    }
    std::stable_sort(chosen.begin(), chosen.end(),
                     [](const Chosen& a, const Chosen& b) { return a.score > b.score; });
    const auto limit = static_cast<std::size_t>(std::max(param.top_k(), 0));
    if (chosen.size() > limit) chosen.resize(limit);
    for (const auto& [index, score] : chosen) {
      const auto box = place(index / number, &codes[4 * (index / number)]);
      if (std::min(box[2] - box[0], box[3] - box[1]) < param.box_threshold()) continue;
      found.push_back({static_cast<int>(index % number), score, box});
    }
  }

 private:
  std::vector<float> place(std::size_t anchor, const float* code) const {
    const auto cell = anchor / kAnchors, shape = anchor % kAnchors;
    const float side = size_ * std::exp2(static_cast<float>(shape % kScales) / kScales);
    const float root = std::sqrt(kRatios[shape / kScales]);
    const float width = side / root, height = side * root;
    const float x = static_cast<float>(cell % classes_.width) * width_ /
                        static_cast<float>(classes_.width) + code[0] * width;
    const float y = static_cast<float>(cell / classes_.width) * height_ /
                        static_cast<float>(classes_.height) + code[1] * height;
    const float half_width = std::exp(code[2]) * width / 2;
    const float half_height = std::exp(code[3]) * height / 2;
    return {std::clamp(x - half_width, 0.f, width_), std::clamp(y - half_height, 0.f, height_),
            std::clamp(x + half_width, 0.f, width_), std::clamp(y + half_height, 0.f, height_)};
  }

  float size_, width_, height_;
  OutputTensor classes_, places_;
};

class Post : public RetinaNetPostProcess {
 public:
  Post(const InputTensor& input, const std::vector<OutputTensor>& outputs,
       const proto::RetinaNetParam& param)
      : param_(param) {
    // By kind and size: runners sort outputs by their names, which need not be in this order.
    auto sorted = outputs;
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      return a.width * a.height > b.width * b.height;
    });
    std::stable_partition(sorted.begin(), sorted.end(), [](const OutputTensor& output) {
      return output.channel != 4 * kAnchors;
    });
    const auto number = sorted.size() / 2;
    if (number == 0 || sorted.size() % 2 != 0) {
      throw std::runtime_error("there are " + std::to_string(sorted.size()) +
                               " outputs, but every level has one for classes and one for boxes");
    }
    for (std::size_t i = 0; i < number; ++i) {
      levels_.emplace_back(static_cast<int>(i), input, sorted[i], sorted[number + i]);
    }
  }

  std::vector<std::vector<RetinaNetBoundingBox>> retinanet_post_process(
      std::size_t batch_size) override {
    std::vector<std::vector<RetinaNetBoundingBox>> results;
    for (std::size_t sample = 0; sample < batch_size; ++sample) results.push_back(of(sample));
    return results;
  }

 private:
  std::vector<RetinaNetBoundingBox> of(std::size_t sample) const {
    std::vector<PixelBox> found;
    for (const auto& level : levels_) level.decode(sample, param_, found);
    // As in the library, corners are compared as if they were centres and sizes.
    found = opendpu::tasks::suppressed(found, levels_.front().classes(), param_.nms_threshold(),
                                       param_.conf_threshold());
    opendpu::tasks::keep_surest(found, 0);
    std::vector<RetinaNetBoundingBox> made;
    for (const auto& [label, score, place] : found) {
      made.push_back({place[0], place[1], place[2], place[3], score,
                      static_cast<std::size_t>(label)});
    }
    return made;
  }

  proto::RetinaNetParam param_;
  std::vector<Level> levels_;
};

class RetinaNetImp : public RetinaNet {
 public:
  RetinaNetImp(const std::string& name, xir::Attrs* attrs, bool need_preprocess)
      : RetinaNet(name, attrs, need_preprocess),
        post_(RetinaNetPostProcess::create(configurable_dpu_task_->getInputTensor()[0],
                                           configurable_dpu_task_->getOutputTensor()[0],
                                           configurable_dpu_task_->getConfig())) {}

  std::vector<RetinaNetBoundingBox> run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageRGB(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    return post_->retinanet_post_process(1).front();
  }
  std::vector<std::vector<RetinaNetBoundingBox>> run(
      const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }

 private:
  std::unique_ptr<RetinaNetPostProcess> post_;
};

}  // namespace

std::unique_ptr<RetinaNetPostProcess> RetinaNetPostProcess::create(
    const std::vector<InputTensor>& input_tensors, const std::vector<OutputTensor>& output_tensors,
    const proto::DpuModelParam& config) {
  return std::make_unique<Post>(input_tensors.at(0), output_tensors, config.retinanet_param());
}

std::unique_ptr<RetinaNet> RetinaNet::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<RetinaNet> RetinaNet::create(const std::string& model_name, xir::Attrs* attrs,
                                             bool need_preprocess) {
  return std::make_unique<RetinaNetImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
