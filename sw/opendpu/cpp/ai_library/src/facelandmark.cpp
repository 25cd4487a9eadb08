// SPDX-License-Identifier: Apache-2.0
// FaceLandmark: pictures of a face in, five points out.
#include "vitis/ai/facelandmark.hpp"

#include <stdexcept>

#include "one_by_one.hpp"
#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

class FaceLandmarkImp : public FaceLandmark {
 public:
  using FaceLandmark::FaceLandmark;

  FaceLandmarkResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageBGR(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    return face_landmark_post_process(task.getInputTensor(), task.getOutputTensor(),
                                      task.getConfig())
        .front();
  }
  std::vector<FaceLandmarkResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
};

}  // namespace

std::vector<FaceLandmarkResult> face_landmark_post_process(
    const std::vector<std::vector<library::InputTensor>>&,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors,
    const proto::DpuModelParam&) {
  const auto& output = output_tensors.at(0).at(0);
  std::vector<FaceLandmarkResult> results(output.batch);
  for (std::size_t sample = 0; sample < output.batch; ++sample) {
    auto& points = results[sample].points;
    const auto values = opendpu::tasks::values(output, sample);
    if (values.size() < 2 * points.size()) {
      throw std::runtime_error("output " + output.name + " has " + std::to_string(values.size()) +
                               " values, but five points have ten");
    }
    for (std::size_t i = 0; i < points.size(); ++i) {
      points[i] = {values[i], values[i + points.size()]};
    }
  }
  return results;
}

std::unique_ptr<FaceLandmark> FaceLandmark::create(const std::string& model_name,
                                                   bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<FaceLandmark> FaceLandmark::create(const std::string& model_name,
                                                   xir::Attrs* attrs, bool need_preprocess) {
  return std::make_unique<FaceLandmarkImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
