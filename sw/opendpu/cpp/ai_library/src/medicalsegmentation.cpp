// SPDX-License-Identifier: Apache-2.0
// MedicalSegmentation: images in, classes of pixels out, a picture for each output.
#include "vitis/ai/medicalsegmentation.hpp"

#include "one_by_one.hpp"
#include "outputs.hpp"
#include "vitis/ai/nnpp/segmentation.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::InputTensor;
using opendpu::tasks::OutputTensor;

class PostProcess : public MedicalSegmentationPostProcess {
 public:
  PostProcess(const InputTensor& input, std::vector<OutputTensor> outputs, int& number)
      : input_(input), outputs_(std::move(outputs)), number_(number) {}

  MedicalSegmentationResult medicalsegmentation_post_process(unsigned int idx) override {
    MedicalSegmentationResult result{static_cast<int>(input_.width),
                                     static_cast<int>(input_.height), {}};
    for (const auto& output : outputs_) {
      result.segmentation.push_back(
          segmentation_post_process_8UC1(input_, output).at(idx).segmentation);
    }
    return result;
  }
  std::vector<MedicalSegmentationResult> medicalsegmentation_post_process() override {
    std::vector<MedicalSegmentationResult> results;
    for (int i = 0; i < number_; ++i) {
      results.push_back(medicalsegmentation_post_process(static_cast<unsigned>(i)));
    }
    return results;
  }

 private:
  InputTensor input_;
  std::vector<OutputTensor> outputs_;
  int& number_;
};

class MedicalSegmentationImp : public MedicalSegmentation {
 public:
  MedicalSegmentationImp(const std::string& name, xir::Attrs* attrs, bool need_preprocess)
      : MedicalSegmentation(name, attrs, need_preprocess),
        post_(MedicalSegmentationPostProcess::create(
            configurable_dpu_task_->getInputTensor()[0],
            configurable_dpu_task_->getOutputTensor()[0], configurable_dpu_task_->getConfig(),
            number_)) {}

  MedicalSegmentationResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageBGR(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    return post_->medicalsegmentation_post_process(0);
  }
  std::vector<MedicalSegmentationResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }

 private:
  int number_ = 1;
  std::unique_ptr<MedicalSegmentationPostProcess> post_;
};

}  // namespace

std::unique_ptr<MedicalSegmentationPostProcess> MedicalSegmentationPostProcess::create(
    const std::vector<InputTensor>& input_tensors, const std::vector<OutputTensor>& output_tensors,
    const proto::DpuModelParam&, int& real_batch_size) {
  return std::make_unique<PostProcess>(input_tensors.at(0), output_tensors, real_batch_size);
}

std::unique_ptr<MedicalSegmentation> MedicalSegmentation::create(const std::string& model_name,
                                                                 bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<MedicalSegmentation> MedicalSegmentation::create(const std::string& model_name,
                                                                 xir::Attrs* attrs,
                                                                 bool need_preprocess) {
  return std::make_unique<MedicalSegmentationImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
