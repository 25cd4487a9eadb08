// SPDX-License-Identifier: Apache-2.0
// RefineDet: images in, boxes out.
#include "vitis/ai/refinedet.hpp"

#include <algorithm>
#include <stdexcept>

#include "detections.hpp"
#include "outputs.hpp"
#include "with_buffers.hpp"
#include "vitis/ai/nnpp/apply_nms.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::Box;
using opendpu::tasks::Detection;
using opendpu::tasks::InputTensor;
using opendpu::tasks::OutputTensor;
using opendpu::tasks::Prior;

// Of the second stage's codes, whatever the prior boxes have.
constexpr std::array<float, 4> kVariances{0.1f, 0.1f, 0.2f, 0.2f};

class Post : public RefineDetPostProcess {
 public:
  Post(const std::vector<InputTensor>& inputs, const std::vector<OutputTensor>& outputs,
       const proto::DpuModelParam& config)
      : limits_(opendpu::tasks::limits_of(config.refine_det_param())),
        width_(static_cast<int>(inputs.at(0).width)),
        height_(static_cast<int>(inputs.at(0).height)) {
    const auto& param = config.refine_det_param();
    if (param.layer_name_size() != 4) {
      throw std::runtime_error("refine_det_param has " + std::to_string(param.layer_name_size()) +
                               " layer_name, but must have four");
    }
    priors_ = opendpu::tasks::prior_boxes(param.prior_box_param(), {false, false}, width_, height_);
    first_ = opendpu::tasks::output_named(outputs, param.layer_name(0));
    second_ = opendpu::tasks::output_named(outputs, param.layer_name(2));
    classes_ = opendpu::tasks::output_named(outputs, param.layer_name(3));
    for (const auto& boxes : {first_, second_}) {
      opendpu::tasks::check_sizes(priors_.size(), limits_.classes, 4,
                                  opendpu::tasks::elements(boxes),
                                  opendpu::tasks::elements(classes_));
    }
  }

  std::vector<RefineDetResult> refine_det_post_process(std::size_t batch_size) override {
    std::vector<RefineDetResult> results;
    for (std::size_t sample = 0; sample < batch_size; ++sample) results.push_back(of(sample));
    return results;
  }

 private:
  RefineDetResult of(std::size_t sample) const {
    const auto first = opendpu::tasks::values(first_, sample);
    const auto second = opendpu::tasks::values(second_, sample);
    auto scores = opendpu::tasks::values(classes_, sample);
    std::vector<Box> moved;
    moved.reserve(priors_.size());
    for (std::size_t i = 0; i < priors_.size(); ++i) {
      moved.push_back(
          opendpu::tasks::clipped(opendpu::tasks::decoded(&first[4 * i], priors_[i])));
      opendpu::tasks::softmax(&scores[i * limits_.classes], limits_.classes);
    }
    RefineDetResult result{width_, height_, {}};
    const auto found = opendpu::tasks::detections(scores, moved, limits_);
    for (int label = 1; label < limits_.classes; ++label) {
      add(label, found, moved, second, result);
    }
    return result;
  }

  // Boxes of one class move once more, and may now cover one another.
  void add(int label, const std::vector<Detection>& found, const std::vector<Box>& moved,
           const std::vector<float>& codes, RefineDetResult& result) const {
    std::vector<Box> places;
    std::vector<float> scores;
    for (const auto& one : found) {
      if (one.label != label) continue;
      const auto& box = moved[one.prior];
      places.push_back(opendpu::tasks::decoded(&codes[4 * one.prior],
                                               {box[0], box[1], box[2], box[3], kVariances}));
      scores.push_back(one.score);
    }
    std::vector<std::size_t> kept;
    applyNMS(places, scores, limits_.nms, 0, kept);
    for (const auto i : kept) {
      const auto& box = places[i];
      result.bboxes.push_back({box[0] - box[2] / 2, box[1] - box[3] / 2, box[2], box[3], label,
                               scores[i]});
    }
  }

  opendpu::tasks::DetectionLimits limits_;
  int width_, height_;
  std::vector<Prior> priors_;
  OutputTensor first_, second_, classes_;
};

class RefineDetImp : public opendpu::tasks::WithBuffers<RefineDet, RefineDetResult> {
 public:
  RefineDetImp(const std::string& name, xir::Attrs* attrs, bool need_preprocess)
      : WithBuffers(name, attrs, need_preprocess),
        post_(RefineDetPostProcess::create(configurable_dpu_task_->getInputTensor()[0],
                                           configurable_dpu_task_->getOutputTensor()[0],
                                           configurable_dpu_task_->getConfig())) {}

  RefineDetResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageBGR(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    return found();
  }

 protected:
  RefineDetResult found() override {
    return post_->refine_det_post_process(1).front();
  }

 private:
  std::unique_ptr<RefineDetPostProcess> post_;
};

}  // namespace

std::unique_ptr<RefineDetPostProcess> RefineDetPostProcess::create(
    const std::vector<InputTensor>& input_tensors, const std::vector<OutputTensor>& output_tensors,
    const proto::DpuModelParam& config) {
  return std::make_unique<Post>(input_tensors, output_tensors, config);
}

std::unique_ptr<RefineDet> RefineDet::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<RefineDet> RefineDet::create(const std::string& model_name, xir::Attrs* attrs,
                                             bool need_preprocess) {
  return std::make_unique<RefineDetImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
