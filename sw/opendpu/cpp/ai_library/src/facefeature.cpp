// SPDX-License-Identifier: Apache-2.0
// FaceFeature: aligned faces in, features out.
#include "vitis/ai/facefeature.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "one_by_one.hpp"
#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::OutputTensor;

template <typename Vector>
void check_size(const OutputTensor& output, const Vector& feature) {
  if (opendpu::tasks::elements(output) >= feature.size()) return;
  throw std::runtime_error("output " + output.name + " has " +
                           std::to_string(opendpu::tasks::elements(output)) +
                           " values, but features have " + std::to_string(feature.size()));
}

class FaceFeatureImp : public FaceFeature {
 public:
  using FaceFeature::FaceFeature;

  FaceFeatureFloatResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    compute(image);
    return face_feature_post_process_float(task.getInputTensor(), task.getOutputTensor(),
                                           task.getConfig(), 0);
  }
  FaceFeatureFixedResult run_fixed(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    compute(image);
    return face_feature_post_process_fixed(task.getInputTensor(), task.getOutputTensor(),
                                           task.getConfig(), 0);
  }
  std::vector<FaceFeatureFloatResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
  std::vector<FaceFeatureFixedResult> run_fixed(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images,
                                      [this](const cv::Mat& image) { return run_fixed(image); });
  }

 private:
  void compute(const cv::Mat& image) {
    auto& task = *configurable_dpu_task_;
    task.setInputImageRGB(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
  }
};

}  // namespace

FaceFeatureFixedResult face_feature_post_process_fixed(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors,
    const proto::DpuModelParam&, std::size_t batch_idx) {
  const auto& input = input_tensors.at(0).at(0);
  const auto& output = output_tensors.at(0).at(0);
  auto feature = std::make_unique<FaceFeatureFixedResult::vector_t>();
  check_size(output, *feature);
  if (output.dtype != library::DT_INT8) {
    throw std::runtime_error("output " + output.name + " has floats, but fixed features are asked");
  }
  const auto* elements = static_cast<const std::int8_t*>(output.get_data(batch_idx));
  std::copy_n(elements, feature->size(), feature->begin());
  return {static_cast<int>(input.width), static_cast<int>(input.height), tensor_scale(output),
          std::move(feature)};
}

FaceFeatureFloatResult face_feature_post_process_float(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors,
    const proto::DpuModelParam&, std::size_t batch_idx) {
  const auto& input = input_tensors.at(0).at(0);
  const auto& output = output_tensors.at(0).at(0);
  auto feature = std::make_unique<FaceFeatureFloatResult::vector_t>();
  check_size(output, *feature);
  const auto values = opendpu::tasks::values(output, batch_idx);
  std::copy_n(values.begin(), feature->size(), feature->begin());
  return {static_cast<int>(input.width), static_cast<int>(input.height), std::move(feature)};
}

std::unique_ptr<FaceFeature> FaceFeature::create(const std::string& model_name,
                                                 bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<FaceFeature> FaceFeature::create(const std::string& model_name, xir::Attrs* attrs,
                                                 bool need_preprocess) {
  return std::make_unique<FaceFeatureImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
