// SPDX-License-Identifier: Apache-2.0
// PoseDetect: pictures of a person in, joints out.
#include "vitis/ai/posedetect.hpp"

#include <stdexcept>
#include <string>

#include "averages.hpp"
#include "one_by_one.hpp"
#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

using Pose = PoseDetectResult::Pose14Pt;

// In the order of the network's output.
constexpr cv::Point2f Pose::* kJoints[] = {
    &Pose::right_shoulder, &Pose::right_elbow, &Pose::right_wrist, &Pose::left_shoulder,
    &Pose::left_elbow,     &Pose::left_wrist,  &Pose::right_hip,   &Pose::right_knee,
    &Pose::right_ankle,    &Pose::left_hip,    &Pose::left_knee,   &Pose::left_ankle,
    &Pose::head,           &Pose::neck,
};

class PoseDetectImp : public PoseDetect {
 public:
  using PoseDetect::PoseDetect;

  PoseDetectResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    const auto fitted = opendpu::tasks::resized(image, getInputWidth(), getInputHeight());
    task.setInputImageBGR(fitted);
    opendpu::tasks::run_over_averages(task);
    return pose_detect_post_process(task.getInputTensor(), task.getOutputTensor(), fitted.size())
        .front();
  }
  std::vector<PoseDetectResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
};

}  // namespace

std::vector<PoseDetectResult> pose_detect_post_process(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors, cv::Size size) {
  const auto& input = input_tensors.at(0).at(0);
  const auto& output = output_tensors.back().at(0);
  std::vector<PoseDetectResult> results;
  for (std::size_t sample = 0; sample < output.batch; ++sample) {
    const auto values = opendpu::tasks::values(output, sample);
    if (values.size() < 2 * std::size(kJoints)) {
      throw std::runtime_error("output " + output.name + " has " + std::to_string(values.size()) +
                               " values, but fourteen joints have 28");
    }
    PoseDetectResult result{static_cast<int>(input.width), static_cast<int>(input.height), {}};
    for (std::size_t i = 0; i < std::size(kJoints); ++i) {
      result.pose14pt.*kJoints[i] = {values[2 * i] / static_cast<float>(size.width),
                                     values[2 * i + 1] / static_cast<float>(size.height)};
    }
    results.push_back(result);
  }
  return results;
}

std::unique_ptr<PoseDetect> PoseDetect::create(const std::string& model_name,
                                               bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<PoseDetect> PoseDetect::create(const std::string& model_name, xir::Attrs* attrs,
                                               bool need_preprocess) {
  return std::make_unique<PoseDetectImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
