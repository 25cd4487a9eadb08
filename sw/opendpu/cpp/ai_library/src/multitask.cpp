// SPDX-License-Identifier: Apache-2.0
// MultiTask: images in, vehicles and classes or colours of pixels out.
#include "vitis/ai/multitask.hpp"

#include <cmath>
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

// Values of a box: its code, and where it points.
constexpr std::size_t kCode = 6;

class Post : public MultiTaskPostProcess {
 public:
  Post(const InputTensor& input, const std::vector<OutputTensor>& outputs,
       const proto::DpuModelParam& config)
      : config_(config), input_(input) {
    const auto& param = config_.multi_task_param();
    if (param.loc_name().empty() || param.conf_name().empty()) {
      throw std::runtime_error("multi_task_param has no loc_name or no conf_name");
    }
    limits_ = {param.num_of_detection_classes(), {param.th_conf().begin(), param.th_conf().end()},
               param.nms_threshold(), param.top_k(), param.keep_top_k(), 1};
    priors_ = opendpu::tasks::prior_boxes(param.prior_box_param(), {false, false},
                                          static_cast<int>(input.width),
                                          static_cast<int>(input.height));
    boxes_ = opendpu::tasks::outputs_named(outputs, param.loc_name());
    scores_ = opendpu::tasks::outputs_named(outputs, param.conf_name());
    pixels_ = opendpu::tasks::output_named(outputs, param.seg_name());
    opendpu::tasks::check_sizes(priors_.size(), limits_.classes, kCode,
                                opendpu::tasks::elements(boxes_),
                                opendpu::tasks::elements(scores_));
  }

  std::vector<MultiTaskResult> post_process_seg(std::size_t batch_size) override {
    return joined(batch_size, segmentation_post_process_8UC1(input_, pixels_));
  }
  std::vector<MultiTaskResult> post_process_seg_visualization(std::size_t batch_size) override {
    return joined(batch_size, segmentation_post_process_8UC3(input_, pixels_, config_));
  }

 private:
  std::vector<MultiTaskResult> joined(std::size_t batch_size,
                                      const std::vector<SegmentationResult>& pixels) const {
    std::vector<MultiTaskResult> results;
    for (std::size_t sample = 0; sample < batch_size; ++sample) {
      const auto& seen = pixels.at(sample);
      results.push_back({seen.width, seen.height, vehicles(sample), seen.segmentation});
    }
    return results;
  }

  std::vector<VehicleResult> vehicles(std::size_t sample) const {
    const auto codes = opendpu::tasks::values(boxes_, sample);
    auto scores = opendpu::tasks::values(scores_, sample);
    std::vector<opendpu::tasks::Box> boxes;
    boxes.reserve(priors_.size());
    for (std::size_t i = 0; i < priors_.size(); ++i) {
      boxes.push_back(
          opendpu::tasks::clipped(opendpu::tasks::decoded(&codes[kCode * i], priors_[i])));
      opendpu::tasks::softmax(&scores[i * limits_.classes], limits_.classes);
    }
    std::vector<VehicleResult> found;
    for (const auto& one : opendpu::tasks::detections(scores, boxes, limits_)) {
      const auto& box = boxes[one.prior];
      const float* direction = &codes[kCode * one.prior + 4];
      const double angle = std::atan2(direction[1], direction[0]) * 180. / M_PI;
      found.push_back({one.label, one.score, box[0] - box[2] / 2, box[1] - box[3] / 2, box[2],
                       box[3], static_cast<float>(angle)});
    }
    return found;
  }

  proto::DpuModelParam config_;
  InputTensor input_;
  opendpu::tasks::DetectionLimits limits_;
  std::vector<opendpu::tasks::Prior> priors_;
  std::vector<OutputTensor> boxes_, scores_;
  OutputTensor pixels_;
};

class MultiTaskImp : public MultiTask {
 public:
  MultiTaskImp(const std::string& name, xir::Attrs* attrs, bool need_preprocess)
      : MultiTask(name, attrs, need_preprocess),
        post_(MultiTaskPostProcess::create(configurable_dpu_task_->getInputTensor(),
                                           configurable_dpu_task_->getOutputTensor(),
                                           configurable_dpu_task_->getConfig())) {}

  MultiTaskResult run_8UC1(const cv::Mat& image) override {
    compute(image);
    return post_->post_process_seg(1).front();
  }
  MultiTaskResult run_8UC3(const cv::Mat& image) override {
    compute(image);
    return post_->post_process_seg_visualization(1).front();
  }
  std::vector<MultiTaskResult> run_8UC1(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images,
                                      [this](const cv::Mat& image) { return run_8UC1(image); });
  }
  std::vector<MultiTaskResult> run_8UC3(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images,
                                      [this](const cv::Mat& image) { return run_8UC3(image); });
  }

 private:
  void compute(const cv::Mat& image) {
    auto& task = *configurable_dpu_task_;
    task.setInputImageBGR(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
  }

  std::unique_ptr<MultiTaskPostProcess> post_;
};

}  // namespace

std::unique_ptr<MultiTaskPostProcess> MultiTaskPostProcess::create(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors,
    const proto::DpuModelParam& config) {
  return std::make_unique<Post>(input_tensors.at(0).at(0), output_tensors.at(0), config);
}

std::unique_ptr<MultiTask> MultiTask::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<MultiTask> MultiTask::create(const std::string& model_name, xir::Attrs* attrs,
                                             bool need_preprocess) {
  return std::make_unique<MultiTaskImp>(model_name, attrs, need_preprocess);
}

std::unique_ptr<MultiTask8UC1> MultiTask8UC1::create(const std::string& model_name,
                                                     bool need_preprocess) {
  return std::make_unique<MultiTask8UC1>(MultiTask::create(model_name, need_preprocess));
}

std::unique_ptr<MultiTask8UC3> MultiTask8UC3::create(const std::string& model_name,
                                                     bool need_preprocess) {
  return std::make_unique<MultiTask8UC3>(MultiTask::create(model_name, need_preprocess));
}

}  // namespace ai
}  // namespace vitis
