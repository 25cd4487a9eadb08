// SPDX-License-Identifier: Apache-2.0
// OpenPose: images in, joints of persons out.
#include "vitis/ai/openpose.hpp"

#include <stdexcept>
#include <string>

#include "one_by_one.hpp"
#include "persons.hpp"
#include "planes.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::kJoints;
using opendpu::tasks::kLimbs;

// Steps of the input a cell of the outputs.
constexpr int kStride = 8;

class OpenPoseImp : public OpenPose {
 public:
  using OpenPose::OpenPose;

  OpenPoseResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageBGR(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    return open_pose_post_process(task.getInputTensor()[0], task.getOutputTensor()[0],
                                  task.getConfig(), {image.cols}, {image.rows})
        .front();
  }
  std::vector<OpenPoseResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
};

void check(const library::OutputTensor& tensor, std::size_t channels, const char* what) {
  if (tensor.channel == channels) return;
  throw std::runtime_error("output " + tensor.name + " has " + std::to_string(tensor.channel) +
                           " channels, but " + what + " have " + std::to_string(channels));
}

}  // namespace

std::vector<OpenPoseResult> open_pose_post_process(
    const std::vector<library::InputTensor>& input_tensors,
    const std::vector<library::OutputTensor>& output_tensors, const proto::DpuModelParam& config,
    const std::vector<int>& ws, const std::vector<int>& hs) {
  const auto& names = config.open_pose_param().layer_name();
  if (names.size() != 2) {
    throw std::runtime_error("open_pose_param has " + std::to_string(names.size()) +
                             " layer_name, but must have two: of limbs and of joints");
  }
  const auto& input = input_tensors.at(0);
  const auto& limbs = opendpu::tasks::output_named(output_tensors, names[0]);
  const auto& joints = opendpu::tasks::output_named(output_tensors, names[1]);
  check(limbs, 2 * std::size(kLimbs), "limbs");
  check(joints, kJoints + 1, "fourteen joints and the rest");
  std::vector<OpenPoseResult> results;
  for (std::size_t sample = 0; sample < ws.size(); ++sample) {
    const auto persons = opendpu::tasks::persons(
        opendpu::tasks::enlarged_planes(joints, sample, kStride),
        opendpu::tasks::enlarged_planes(limbs, sample, kStride), static_cast<float>(input.width));
    const float x = static_cast<float>(ws[sample]) / static_cast<float>(input.width);
    const float y = static_cast<float>(hs.at(sample)) / static_cast<float>(input.height);
    OpenPoseResult result{static_cast<int>(input.width), static_cast<int>(input.height), {}};
    result.poses.emplace_back(kJoints);
    // The library hands them out in the opposite order.
    for (auto person = persons.rbegin(); person != persons.rend(); ++person) {
      auto& points = result.poses.emplace_back(kJoints);
      for (std::size_t i = 0; i < kJoints; ++i) {
        const auto& place = (*person)[i];
        points[i].type = place ? 1 : 3;
        if (place) points[i].point = {place->x * x, place->y * y};
      }
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::unique_ptr<OpenPose> OpenPose::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<OpenPose> OpenPose::create(const std::string& model_name, xir::Attrs* attrs,
                                           bool need_preprocess) {
  return std::make_unique<OpenPoseImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
