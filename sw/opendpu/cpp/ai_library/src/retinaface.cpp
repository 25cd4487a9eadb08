// SPDX-License-Identifier: Apache-2.0
// RetinaFace: images in, faces out.
#include "vitis/ai/retinaface.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "outputs.hpp"
#include "prior_boxes.hpp"
#include "with_buffers.hpp"
#include "vitis/ai/nnpp/apply_nms.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::InputTensor;
using opendpu::tasks::OutputTensor;
using proto::RetinaFaceParam;
using Info = RetinaFaceParam::OutputInfo;
using Landmark = std::array<std::pair<float, float>, 5>;

constexpr std::size_t kPoints = 5;
// Faces that are looked at, the surest.
constexpr std::size_t kMost = 2000;

// Width and height in pixels; counted as the first and the last pixel are apart, and one.
struct Anchor {
  float width, height;
};

std::vector<Anchor> anchors(const RetinaFaceParam::AnchorParam& param) {
  std::vector<Anchor> made;
  const auto size = static_cast<float>(param.base_size());
  for (const float ratio : param.ratios()) {
    const float width = std::round(std::sqrt(size * size / ratio));
    for (const int scale : param.scales()) {
      made.push_back({width * static_cast<float>(scale), width * ratio * static_cast<float>(scale)});
    }
  }
  return made;
}

// What is found at one stride.
class Level {
 public:
  Level(const RetinaFaceParam::AnchorParam& anchor, const RetinaFaceParam& param,
        const std::vector<OutputTensor>& outputs)
      : stride_(anchor.stride()), middle_(static_cast<float>(anchor.base_size() - 1) / 2),
        anchors_(anchors(anchor)) {
    likelihoods_.resize(2 * anchors_.size());
    for (const auto& info : param.output_info()) {
      if (info.stride() == stride_) keep(info, opendpu::tasks::output_named(outputs, info.name()));
    }
    check(boxes_, 4);
    check(landmarks_, 2 * kPoints);
    for (const auto& tensor : likelihoods_) check(tensor, 0);
  }

  // Adds faces that are sure enough, in pixels; by row, column and anchor.
  void decode(std::size_t sample, float threshold, std::vector<RetinaFaceResult::BoundingBox>& boxes,
              std::vector<Landmark>& landmarks) const {
    const auto places = opendpu::tasks::values(boxes_, sample);
    const auto points = opendpu::tasks::values(landmarks_, sample);
    std::vector<std::vector<float>> scores;
    for (const auto& tensor : likelihoods_) scores.push_back(highest(tensor, sample));
    const std::size_t number = anchors_.size();
    for (std::size_t i = 0; i < boxes_.height * boxes_.width; ++i) {
      const float x = middle_ + static_cast<float>(stride_ * static_cast<int>(i % boxes_.width));
      const float y = middle_ + static_cast<float>(stride_ * static_cast<int>(i / boxes_.width));
      for (std::size_t a = 0; a < number; ++a) {
        float pair[] = {scores[2 * a][i], scores[2 * a + 1][i]};
        opendpu::tasks::softmax(pair, 2);
        if (!(pair[1] >= threshold)) continue;
        const auto& [width, height] = anchors_[a];
        const float* place = &places[4 * (i * number + a)];
        const float wide = std::exp(place[2]) * width - 1, high = std::exp(place[3]) * height - 1;
        boxes.push_back({place[0] * width + x - wide / 2, place[1] * height + y - high / 2, wide,
                         high, pair[1]});
        const float* point = &points[2 * kPoints * (i * number + a)];
        auto& made = landmarks.emplace_back();
        for (std::size_t k = 0; k < kPoints; ++k) {
          made[k] = {point[2 * k] * width + x, point[2 * k + 1] * height + y};
        }
      }
    }
  }

 private:
  void keep(const Info& info, const OutputTensor& tensor) {
    if (info.type() == Info::BBOX) boxes_ = tensor;
    if (info.type() == Info::LANDMARK) landmarks_ = tensor;
    if (info.type() != Info::CONF) return;
    const auto& anchor = info.output_anchor_info();
    if (anchor.index() < 0 || static_cast<std::size_t>(anchor.index()) >= anchors_.size()) {
      throw std::runtime_error("output " + info.name() + " is for anchor " +
                               std::to_string(anchor.index()) + ", but stride " +
                               std::to_string(stride_) + " has " +
                               std::to_string(anchors_.size()));
    }
    const bool face = anchor.type() == RetinaFaceParam::OutputAnchorInfo::FG;
    likelihoods_[2 * static_cast<std::size_t>(anchor.index()) + (face ? 1 : 0)] = tensor;
  }

  // `channels` of an anchor; any number where it is 0.
  void check(const OutputTensor& tensor, std::size_t channels) const {
    if (tensor.name.empty()) {
      throw std::runtime_error("retinaface_param does not name all outputs of stride " +
                               std::to_string(stride_));
    }
    if (tensor.width == boxes_.width && tensor.height == boxes_.height &&
        (channels == 0 || tensor.channel == channels * anchors_.size())) {
      return;
    }
    throw std::runtime_error("output " + tensor.name + " is " + std::to_string(tensor.height) +
                             "x" + std::to_string(tensor.width) + "x" +
                             std::to_string(tensor.channel) + ", but stride " +
                             std::to_string(stride_) + " has " + std::to_string(anchors_.size()) +
                             " anchors in " + std::to_string(boxes_.height) + "x" +
                             std::to_string(boxes_.width) + " cells");
  }

  // The largest value of each cell: networks may have several values for the same.
  static std::vector<float> highest(const OutputTensor& tensor, std::size_t sample) {
    const auto values = opendpu::tasks::values(tensor, sample);
    std::vector<float> made;
    for (auto cell = values.begin(); cell != values.end();
         cell += static_cast<std::ptrdiff_t>(tensor.channel)) {
      made.push_back(
          *std::max_element(cell, cell + static_cast<std::ptrdiff_t>(tensor.channel)));
    }
    return made;
  }

  int stride_;
  float middle_;  // of the first anchor
  std::vector<Anchor> anchors_;
  OutputTensor boxes_, landmarks_;
  std::vector<OutputTensor> likelihoods_;  // of each anchor of nothing and of a face
};

class PostProcess : public RetinaFacePostProcess {
 public:
  PostProcess(const InputTensor& input, const std::vector<OutputTensor>& outputs,
              const RetinaFaceParam& param)
      : width_(static_cast<float>(input.width)), height_(static_cast<float>(input.height)),
        threshold_(param.det_threshold()), nms_(param.nms_threshold()) {
    std::vector<RetinaFaceParam::AnchorParam> levels(param.anchor_param().begin(),
                                                     param.anchor_param().end());
    if (levels.empty()) throw std::runtime_error("retinaface_param has no anchor_param");
    std::stable_sort(levels.begin(), levels.end(),
                     [](const auto& a, const auto& b) { return a.stride() > b.stride(); });
    for (const auto& level : levels) {
      const double number = static_cast<double>(level.ratios_size()) * level.scales_size();
      opendpu::tasks::check_number(0, number * static_cast<double>(outputs.size()));
      levels_.emplace_back(level, param, outputs);
    }
  }

  std::vector<RetinaFaceResult> retinaface_post_process(std::size_t batch_size) override {
    std::vector<RetinaFaceResult> results;
    for (std::size_t sample = 0; sample < batch_size; ++sample) results.push_back(found(sample));
    return results;
  }

 private:
  RetinaFaceResult found(std::size_t sample) const {
    std::vector<RetinaFaceResult::BoundingBox> boxes;
    std::vector<Landmark> landmarks;
    for (const auto& level : levels_) level.decode(sample, threshold_, boxes, landmarks);
    std::vector<std::size_t> order(boxes.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return boxes[a].score > boxes[b].score;
    });
    order.resize(std::min(order.size(), kMost));
    std::vector<std::vector<float>> places;
    std::vector<float> scores;
    for (const auto i : order) {
      auto& box = boxes[i];
      box = {box.x / width_, box.y / height_, box.width / width_, box.height / height_, box.score};
      // The library compares boxes by their top left corners instead of their centres.
      places.push_back({box.x, box.y, box.width, box.height});
      scores.push_back(box.score);
    }
    std::vector<std::size_t> kept;
    applyNMS(places, scores, nms_, threshold_, kept);
    RetinaFaceResult result{static_cast<int>(width_), static_cast<int>(height_), {}, {}};
    for (const auto i : kept) {
      result.bboxes.push_back(boxes[order[i]]);
      auto& points = result.landmarks.emplace_back(landmarks[order[i]]);
      for (auto& [x, y] : points) {
        x /= width_;
        y /= height_;
      }
    }
    return result;
  }

  float width_, height_, threshold_, nms_;
  std::vector<Level> levels_;
};

class RetinaFaceImp : public opendpu::tasks::WithBuffers<RetinaFace, RetinaFaceResult> {
 public:
  RetinaFaceImp(const std::string& name, xir::Attrs* attrs, bool need_preprocess)
      : WithBuffers(name, attrs, need_preprocess),
        post_(RetinaFacePostProcess::create(configurable_dpu_task_->getInputTensor()[0],
                                            configurable_dpu_task_->getOutputTensor()[0],
                                            configurable_dpu_task_->getConfig())) {}

  RetinaFaceResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageRGB(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    return found();
  }

 protected:
  RetinaFaceResult found() override {
    return post_->retinaface_post_process(1).front();
  }

 private:
  std::unique_ptr<RetinaFacePostProcess> post_;
};

}  // namespace

std::unique_ptr<RetinaFacePostProcess> RetinaFacePostProcess::create(
    const std::vector<InputTensor>& input_tensors, const std::vector<OutputTensor>& output_tensors,
    const proto::DpuModelParam& config) {
  return std::make_unique<PostProcess>(input_tensors.at(0), output_tensors,
                                       config.retinaface_param());
}

std::unique_ptr<RetinaFace> RetinaFace::create(const std::string& model_name,
                                               bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<RetinaFace> RetinaFace::create(const std::string& model_name, xir::Attrs* attrs,
                                               bool need_preprocess) {
  return std::make_unique<RetinaFaceImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
