// SPDX-License-Identifier: Apache-2.0
// Classification: images in, the likeliest classes out.
#include "vitis/ai/classification.hpp"

#include <cstdint>
#include <stdexcept>

#include "crops.hpp"
#include "labels.hpp"
#include "outputs.hpp"
#include "with_buffers.hpp"
#include "vitis/ai/globalavepool.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::OutputTensor;

// Networks with this number of classes have one for nothing in front.
constexpr std::size_t kWithBackground = 1001;

class ClassificationImp : public opendpu::tasks::WithBuffers<Classification, ClassificationResult> {
 public:
  using WithBuffers::WithBuffers;

  ClassificationResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    const auto& param = task.getConfig().classification_param();
    const auto fitted =
        opendpu::tasks::cropped(image, param, getInputWidth(), getInputHeight());
    if (opendpu::tasks::is_rgb(param)) {
      task.setInputImageRGB(fitted);
    } else {
      task.setInputImageBGR(fitted);
    }
    task.run(0);
    return found();
  }

 protected:
  ClassificationResult found() override {
    auto& task = *configurable_dpu_task_;
    const auto& param = task.getConfig().classification_param();
    std::size_t last = 0;
    if (param.has_avg_pool_param()) {
      pool(param.avg_pool_param().scale());
      task.run(1);
      last = 1;
    }
    return classification_post_process(task.getInputTensor()[0], task.getOutputTensor()[last],
                                       task.getConfig())
        .front();
  }

 private:
  // Averages the first subgraph's output on the CPU, for the second's input.
  void pool(float scale) {
    const auto source = configurable_dpu_task_->getOutputTensor().at(0).at(0);
    const auto target = configurable_dpu_task_->getInputTensor().at(1).at(0);
    if (source.channel != target.size / target.batch) {
      throw std::runtime_error("avg_pool_param does not fit: " + source.name + " has " +
                               std::to_string(source.channel) + " channels, " + target.name + " " +
                               std::to_string(target.size / target.batch) + " values");
    }
    globalAvePool(static_cast<const std::int8_t*>(source.get_data(0)),
                  static_cast<int>(source.channel), static_cast<int>(source.width),
                  static_cast<int>(source.height), static_cast<std::int8_t*>(target.get_data(0)),
                  static_cast<int>(scale));
  }
};

}  // namespace

const char* ClassificationResult::lookup(int index) { return opendpu::tasks::label(type, index); }

std::vector<ClassificationResult> classification_post_process(
    const std::vector<library::InputTensor>& input_tensors,
    const std::vector<library::OutputTensor>& output_tensors, const proto::DpuModelParam& config) {
  const auto& param = config.classification_param();
  const auto& input = input_tensors.at(0);
  const auto& output = param.layer_name().empty()
                           ? output_tensors.at(0)
                           : opendpu::tasks::output_named(output_tensors, param.layer_name());
  std::vector<ClassificationResult> results;
  for (std::size_t sample = 0; sample < output.batch; ++sample) {
    ClassificationResult result{static_cast<int>(input.width), static_cast<int>(input.height), {},
                                opendpu::tasks::label_table(param.label_type())};
    const int first = opendpu::tasks::elements(output) == kWithBackground ? 1 : 0;
    for (const auto& [index, score] : opendpu::tasks::likeliest(output, sample, param.top_k())) {
      result.scores.push_back({index - first, score});
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::unique_ptr<Classification> Classification::create(const std::string& model_name,
                                                       bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<Classification> Classification::create(const std::string& model_name,
                                                       xir::Attrs* attrs, bool need_preprocess) {
  return std::make_unique<ClassificationImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
