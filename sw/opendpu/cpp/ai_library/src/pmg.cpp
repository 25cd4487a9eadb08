// SPDX-License-Identifier: Apache-2.0
// PMG: images of products in, classes out.
#include "vitis/ai/pmg.hpp"

#include <algorithm>
#include <opencv2/imgproc.hpp>
#include <stdexcept>

#include "one_by_one.hpp"
#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

class PMGImp : public PMG {
 public:
  using PMG::PMG;

  PMGResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageRGB(fitted(image));
    task.run(0);
    const auto values = opendpu::tasks::values(task.getOutputTensor()[0].at(0), 0);
    const auto largest = std::max_element(values.begin(), values.end());
    return {getInputWidth(), getInputHeight(), static_cast<int>(largest - values.begin())};
  }
  std::vector<PMGResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }

 private:
  cv::Mat fitted(const cv::Mat& image) const {
    if (image.empty()) throw std::invalid_argument("the image is empty");
    cv::Mat made;
    cv::resize(image, made, cv::Size(getInputWidth(), getInputHeight()), 0, 0, cv::INTER_AREA);
    return made;
  }
};

}  // namespace

std::unique_ptr<PMG> PMG::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<PMG> PMG::create(const std::string& model_name, xir::Attrs* attrs,
                                 bool need_preprocess) {
  return std::make_unique<PMGImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
