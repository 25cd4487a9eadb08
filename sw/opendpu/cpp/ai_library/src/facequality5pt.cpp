// SPDX-License-Identifier: Apache-2.0
// FaceQuality5pt: faces in, their quality and points out.
#include "vitis/ai/facequality5pt.hpp"

#include <stdexcept>
#include <string>

#include "one_by_one.hpp"
#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::OutputTensor;

constexpr std::size_t kPoints = 5;

// The network's value at which a picture is as good as bad.
constexpr float kByDay = 600, kByNight = 400;

const OutputTensor& named(const std::vector<OutputTensor>& outputs, const std::string& name,
                          std::size_t otherwise) {
  if (!name.empty()) return opendpu::tasks::output_named(outputs, name);
  if (otherwise < outputs.size()) return outputs[otherwise];
  throw std::runtime_error("a network for the quality of faces has two outputs, but there are " +
                           std::to_string(outputs.size()));
}

class FaceQuality5ptImp : public FaceQuality5pt {
 public:
  using FaceQuality5pt::FaceQuality5pt;

  Mode getMode() override { return mode_; }
  void setMode(Mode mode) override { mode_ = mode; }

  FaceQuality5ptResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageBGR(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    return face_quality5pt_post_process(task.getInputTensor(), task.getOutputTensor(),
                                        task.getConfig(), mode_ == Mode::DAY)
        .front();
  }
  std::vector<FaceQuality5ptResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }

 private:
  Mode mode_ = Mode::DAY;
};

}  // namespace

std::vector<FaceQuality5ptResult> face_quality5pt_post_process(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors,
    const proto::DpuModelParam& config, bool day) {
  const auto& input = input_tensors.at(0).at(0);
  const auto& param = config.face_quality5pt_param();
  const auto& places = named(output_tensors.at(0), param.point_layer_name(), 0);
  const auto& quality = named(output_tensors.at(0), param.quality_layer_name(), 1);
  std::vector<FaceQuality5ptResult> results;
  for (std::size_t sample = 0; sample < input.batch; ++sample) {
    const auto values = opendpu::tasks::values(places, sample);
    if (values.size() < 2 * kPoints) {
      throw std::runtime_error("output " + places.name + " has " + std::to_string(values.size()) +
                               " values, but five points have ten");
    }
    FaceQuality5ptResult result{static_cast<int>(input.width), static_cast<int>(input.height),
                                opendpu::tasks::values(quality, sample).at(0), {}};
    if (!param.original_quality()) {
      result.score = opendpu::tasks::sigmoid((3 * result.score - (day ? kByDay : kByNight)) / 150);
    }
    for (std::size_t i = 0; i < kPoints; ++i) {
      result.points[i] = {values[i] / static_cast<float>(input.width),
                          values[kPoints + i] / static_cast<float>(input.height)};
    }
    results.push_back(result);
  }
  return results;
}

std::unique_ptr<FaceQuality5pt> FaceQuality5pt::create(const std::string& model_name,
                                                       bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<FaceQuality5pt> FaceQuality5pt::create(const std::string& model_name,
                                                       xir::Attrs* attrs, bool need_preprocess) {
  return std::make_unique<FaceQuality5ptImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
