// SPDX-License-Identifier: Apache-2.0
// MedicalDetection: images of endoscopes in, boxes out.
#include "vitis/ai/medicaldetection.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "detections.hpp"
#include "one_by_one.hpp"
#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::Box;
using opendpu::tasks::InputTensor;
using opendpu::tasks::OutputTensor;
using opendpu::tasks::Prior;
using proto::MedicalRefineDetParam;

// Below these the first stage finds nothing in a prior box, and the second none of a class.
constexpr float kLeastObject = 0.01f;
constexpr float kLeastClass = 0.005f;

// Two squares and two rectangles a cell, at every level.
void add_level(const proto::MedicalPriorBoxParam& param, int level,
               const std::array<float, 4>& variances, std::vector<Prior>& made) {
  const auto height = static_cast<float>(param.input_shape(0));
  const auto width = static_cast<float>(param.input_shape(1));
  const auto rows = static_cast<float>(param.input_shape(0) / param.steps(2 * level));
  const auto columns = static_cast<float>(param.input_shape(1) / param.steps(2 * level + 1));
  const auto least = static_cast<float>(param.min_sizes(level));
  const float between = std::sqrt(least * static_cast<float>(param.max_sizes(level)));
  const float root = std::sqrt(param.aspect_ratios(level));
  const float longer = least * root, shorter = least / root;
  const float shapes[][2] = {
      {least, least}, {between, between}, {longer, shorter}, {shorter, longer}};
  for (int row = 0; row < param.feature_shapes(2 * level); ++row) {
    for (int column = 0; column < param.feature_shapes(2 * level + 1); ++column) {
      for (const auto& shape : shapes) {
        made.push_back({(static_cast<float>(column) + param.offset()) / columns,
                        (static_cast<float>(row) + param.offset()) / rows, shape[0] / width,
                        shape[1] / height, variances});
      }
    }
  }
}

std::vector<Prior> prior_boxes(const MedicalRefineDetParam& param) {
  const auto& boxes = param.medical_prior_box_param();
  const int levels = boxes.min_sizes_size();
  bool complete = boxes.input_shape_size() == 2 && boxes.feature_shapes_size() == 2 * levels &&
                  boxes.steps_size() == 2 * levels && boxes.max_sizes_size() == levels &&
                  boxes.aspect_ratios_size() == levels;
  for (const int step : boxes.steps()) {
    complete = complete && step > 0 &&
               step <= std::min(boxes.input_shape(0), boxes.input_shape(1));
  }
  if (!complete) {
    throw std::runtime_error(
        "medical_prior_box_param must have two input_shape, and for every min_sizes one max_sizes, "
        "one aspect_ratios, two feature_shapes and two steps, which are not larger than the input");
  }
  std::vector<Prior> made;
  const float xy = param.scale_xy(), wh = param.scale_wh();
  for (int level = 0; level < levels; ++level) {
    opendpu::tasks::check_number(made.size(), 4. * boxes.feature_shapes(2 * level) *
                                                  boxes.feature_shapes(2 * level + 1));
    add_level(boxes, level, {xy, xy, wh, wh}, made);
  }
  return made;
}

class Post : public MedicalDetectionPostProcess {
 public:
  Post(const std::vector<InputTensor>& inputs, const std::vector<OutputTensor>& outputs,
       const proto::DpuModelParam& config, int& number)
      : priors_(prior_boxes(config.medical_refine_det_param())), number_(number),
        width_(static_cast<int>(inputs.at(0).width)),
        height_(static_cast<int>(inputs.at(0).height)) {
    const auto& param = config.medical_refine_det_param();
    limits_.classes = param.num_classes() + 1;
    limits_.thresholds.assign(static_cast<std::size_t>(std::max(limits_.classes, 1)),
                              std::max(param.conf_threshold(), kLeastClass));
    limits_.nms = param.nms_threshold();
    limits_.keep_top_k = param.keep_top_k();
    objects_ = output(outputs, param, MedicalRefineDetParam::OutputInfo::ARM_CONF);
    first_ = output(outputs, param, MedicalRefineDetParam::OutputInfo::ARM_LOC);
    classes_ = output(outputs, param, MedicalRefineDetParam::OutputInfo::ODM_CONF);
    second_ = output(outputs, param, MedicalRefineDetParam::OutputInfo::ODM_LOC);
    const auto check = [this](int classes, const OutputTensor& places, const OutputTensor& scores) {
      opendpu::tasks::check_sizes(priors_.size(), classes, 4, opendpu::tasks::elements(places),
                                  opendpu::tasks::elements(scores));
    };
    check(2, first_, objects_);
    check(limits_.classes, second_, classes_);
  }

  MedicalDetectionResult medicaldetection_post_process(unsigned int idx) override {
    const auto first = opendpu::tasks::values(first_, idx);
    const auto second = opendpu::tasks::values(second_, idx);
    const auto scores = scores_of(idx);
    std::vector<Box> boxes;
    boxes.reserve(priors_.size());
    for (std::size_t i = 0; i < priors_.size(); ++i) {
      const auto moved = opendpu::tasks::decoded(&first[4 * i], priors_[i]);
      boxes.push_back(opendpu::tasks::decoded(
          &second[4 * i], {moved[0], moved[1], moved[2], moved[3], priors_[i].variances}));
    }
    MedicalDetectionResult result{width_, height_, {}};
    for (const auto& one : opendpu::tasks::detections(scores, boxes, limits_)) {
      const auto& box = boxes[one.prior];
      result.bboxes.push_back({one.label, one.score, box[0] - box[2] / 2, box[1] - box[3] / 2,
                               box[2], box[3]});
    }
    return result;
  }
  std::vector<MedicalDetectionResult> medicaldetection_post_process() override {
    std::vector<MedicalDetectionResult> results;
    for (int i = 0; i < number_; ++i) {
      results.push_back(medicaldetection_post_process(static_cast<unsigned>(i)));
    }
    return results;
  }

 private:
  static OutputTensor output(const std::vector<OutputTensor>& outputs,
                             const MedicalRefineDetParam& param,
                             MedicalRefineDetParam::OutputInfo::Type type) {
    for (const auto& info : param.output_info()) {
      if (info.type() == type) return opendpu::tasks::output_named(outputs, info.name());
    }
    throw std::runtime_error("medical_refine_det_param has no output_info of type " +
                             MedicalRefineDetParam::OutputInfo::Type_Name(type));
  }

  // Those of all classes of each prior box; zeros where the first stage finds nothing.
  std::vector<float> scores_of(std::size_t sample) const {
    auto objects = opendpu::tasks::values(objects_, sample);
    auto scores = opendpu::tasks::values(classes_, sample);
    const auto number = static_cast<std::size_t>(limits_.classes);
    for (std::size_t i = 0; i < priors_.size(); ++i) {
      opendpu::tasks::softmax(&objects[2 * i], 2);
      opendpu::tasks::softmax(&scores[i * number], number);
      if (objects[2 * i + 1] <= kLeastObject) std::fill_n(&scores[i * number], number, 0.f);
    }
    return scores;
  }

  std::vector<Prior> priors_;
  opendpu::tasks::DetectionLimits limits_;
  int& number_;
  int width_, height_;
  OutputTensor objects_, first_, classes_, second_;
};

class MedicalDetectionImp : public MedicalDetection {
 public:
  MedicalDetectionImp(const std::string& name, xir::Attrs* attrs, bool need_preprocess)
      : MedicalDetection(name, attrs, need_preprocess),
        post_(MedicalDetectionPostProcess::create(
            configurable_dpu_task_->getInputTensor()[0],
            configurable_dpu_task_->getOutputTensor()[0], configurable_dpu_task_->getConfig(),
            number_)) {}

  MedicalDetectionResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageBGR(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    return post_->medicaldetection_post_process(0);
  }
  std::vector<MedicalDetectionResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }

 private:
  int number_ = 1;
  std::unique_ptr<MedicalDetectionPostProcess> post_;
};

}  // namespace

std::unique_ptr<MedicalDetectionPostProcess> MedicalDetectionPostProcess::create(
    const std::vector<InputTensor>& input_tensors, const std::vector<OutputTensor>& output_tensors,
    const proto::DpuModelParam& config, int& real_batch_size) {
  return std::make_unique<Post>(input_tensors, output_tensors, config, real_batch_size);
}

std::unique_ptr<MedicalDetection> MedicalDetection::create(const std::string& model_name,
                                                           bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<MedicalDetection> MedicalDetection::create(const std::string& model_name,
                                                           xir::Attrs* attrs,
                                                           bool need_preprocess) {
  return std::make_unique<MedicalDetectionImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
