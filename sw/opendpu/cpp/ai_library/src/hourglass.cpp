// SPDX-License-Identifier: Apache-2.0
// Hourglass: images in, joints out.
#include "vitis/ai/hourglass.hpp"

#include <stdexcept>
#include <string>

#include "one_by_one.hpp"
#include "planes.hpp"

namespace vitis {
namespace ai {
namespace {

constexpr std::size_t kJoints = 16;
// Steps of the input a cell of the output.
constexpr int kStride = 4;
// What a joint's likelihood must exceed.
constexpr float kLeast = 0.001f;

// The place of the largest value, but for those at the edges; the first one of equals, by columns.
bool find_peak(const cv::Mat& plane, cv::Point2f& place) {
  float best = kLeast;
  for (int x = 1; x < plane.cols - 1; ++x) {
    for (int y = 1; y < plane.rows - 1; ++y) {
      if (!(plane.at<float>(y, x) > best)) continue;
      best = plane.at<float>(y, x);
      place = {static_cast<float>(x), static_cast<float>(y)};
    }
  }
  return best > kLeast;
}

class HourglassImp : public Hourglass {
 public:
  using Hourglass::Hourglass;

  HourglassResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageRGB(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    return hourglass_post_process(task.getInputTensor()[0], task.getOutputTensor()[0],
                                  task.getConfig(), {image.cols}, {image.rows})
        .front();
  }
  std::vector<HourglassResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
};

}  // namespace

std::vector<HourglassResult> hourglass_post_process(
    const std::vector<library::InputTensor>& input_tensors,
    const std::vector<library::OutputTensor>& output_tensors, const proto::DpuModelParam&,
    const std::vector<int>& ws, const std::vector<int>& hs) {
  const auto& input = input_tensors.at(0);
  const auto& output = output_tensors.at(0);
  if (output.channel > kJoints) {
    throw std::runtime_error("output " + output.name + " has " + std::to_string(output.channel) +
                             " channels, but there are 16 joints");
  }
  std::vector<HourglassResult> results;
  for (std::size_t sample = 0; sample < ws.size(); ++sample) {
    HourglassResult result{static_cast<int>(input.width), static_cast<int>(input.height),
                           std::vector<HourglassResult::PosePoint>(kJoints)};
    const float x = static_cast<float>(ws[sample]) / static_cast<float>(input.width);
    const float y = static_cast<float>(hs.at(sample)) / static_cast<float>(input.height);
    const auto planes = opendpu::tasks::enlarged_planes(output, sample, kStride);
    for (std::size_t i = 0; i < planes.size(); ++i) {
      auto& joint = result.poses[i];
      if (!find_peak(planes[i], joint.point)) continue;
      joint.type = 1;
      joint.point.x *= x;
      joint.point.y *= y;
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::unique_ptr<Hourglass> Hourglass::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<Hourglass> Hourglass::create(const std::string& model_name, xir::Attrs* attrs,
                                             bool need_preprocess) {
  return std::make_unique<HourglassImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
