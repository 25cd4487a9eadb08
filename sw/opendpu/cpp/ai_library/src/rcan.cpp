// SPDX-License-Identifier: Apache-2.0
// RCAN: images in, larger images out.
#include "vitis/ai/rcan.hpp"

#include <algorithm>
#include <cstdint>
#include <opencv2/imgproc.hpp>
#include <stdexcept>
#include <string>

#include "configured_image.hpp"
#include "outputs.hpp"
#include "with_buffers.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::OutputTensor;

// What an element counts in a pixel: a whole number, as in the library, which takes no scale where
// elements count twice.
int weight(const OutputTensor& output, float scale) {
  if (output.fixpos == -1) return 2;
  return static_cast<int>(library::tensor_scale(output) * scale);
}

class RcanImp : public opendpu::tasks::WithBuffers<Rcan, RcanResult> {
 public:
  using WithBuffers::WithBuffers;

  RcanResult run(const cv::Mat& image) override {
    opendpu::tasks::run_with(*configurable_dpu_task_, image);
    return found();
  }

 protected:
  RcanResult found() override {
    auto& task = *configurable_dpu_task_;
    return rcan_post_process(task.getInputTensor(), task.getOutputTensor(), task.getConfig())
        .front();
  }
};

}  // namespace

std::vector<RcanResult> rcan_post_process(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors,
    const proto::DpuModelParam& config) {
  const auto& input = input_tensors.at(0).at(0);
  const auto& output = output_tensors.at(0).at(0);
  if (output.channel != 3 || output.dtype != library::DT_INT8) {
    throw std::runtime_error("output " + output.name + " has " + std::to_string(output.channel) +
                             " channels, but an image has three, of 8 bits");
  }
  const int factor = weight(output, config.rcan_param().scale());
  std::vector<RcanResult> results;
  for (std::size_t sample = 0; sample < output.batch; ++sample) {
    cv::Mat image(static_cast<int>(output.height), static_cast<int>(output.width), CV_8UC3);
    const auto* elements = static_cast<const std::int8_t*>(output.get_data(sample));
    std::transform(elements, elements + opendpu::tasks::elements(output), image.data,
                   [factor](std::int8_t value) {
                     return static_cast<std::uint8_t>(std::max<int>(value, 0) * factor);
                   });
    if (config.order_type() == proto::DpuModelParam::RGB) {
      cv::cvtColor(image, image, cv::COLOR_RGB2BGR);
    }
    results.push_back({static_cast<int>(input.width), static_cast<int>(input.height), image});
  }
  return results;
}

std::unique_ptr<Rcan> Rcan::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<Rcan> Rcan::create(const std::string& model_name, xir::Attrs* attrs,
                                   bool need_preprocess) {
  return std::make_unique<RcanImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
