// SPDX-License-Identifier: Apache-2.0
// UltraFast: images of a road in, its lanes out.
#include "vitis/ai/ultrafast.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>

#include "one_by_one.hpp"
#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::InputTensor;
using opendpu::tasks::OutputTensor;

// Rows of CULane's images, of 288, where lanes are looked for.
constexpr float kRows[] = {121, 131, 141, 150, 160, 170, 180, 189, 199,
                           209, 219, 228, 238, 248, 258, 267, 277, 287};
// x where a lane does not cross a row.
constexpr float kNowhere = -2;
// What the columns of a lane must sum up to.
constexpr float kLeast = 2;

// Where a lane crosses a row: the mean of columns, from 1 on, over their likelihoods; 0 where the
// likeliest is that it does not cross, which is the last score.
float column(std::vector<float> scores) {
  if (std::max_element(scores.begin(), scores.end()) == scores.end() - 1) return 0;
  opendpu::tasks::softmax(scores.data(), scores.size() - 1);
  float mean = 0;
  for (std::size_t i = 0; i + 1 < scores.size(); ++i) {
    mean += scores[i] * static_cast<float>(i + 1);
  }
  return mean;
}

class UltraFastPostImp : public UltraFastPost {
 public:
  UltraFastPostImp(const InputTensor& input, const OutputTensor& output, int& number,
                   std::vector<cv::Size>& sizes)
      : input_(input), output_(output), number_(number), sizes_(sizes) {
    if (output.width == std::size(kRows) && output.height > 2) return;
    throw std::runtime_error("output " + output.name + " is " + std::to_string(output.height) +
                             "x" + std::to_string(output.width) +
                             ", but must be a column for each of 18 rows");
  }

  UltraFastResult post_process(unsigned int idx) override {
    const auto values = opendpu::tasks::values(output_, idx);
    const std::size_t lanes = output_.channel, rows = output_.width;
    const auto& size = sizes_.at(idx);
    const auto width = static_cast<float>(input_.width);
    // Columns are as far apart as the input is wide, but for its last pixel.
    const float step = static_cast<float>(size.width) / width * (width - 1) /
                       static_cast<float>(output_.height - 2);
    UltraFastResult result;
    result.width = static_cast<int>(input_.width);
    result.height = static_cast<int>(input_.height);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      std::vector<float> places;
      float sum = 0;
      for (std::size_t row = 0; row < rows; ++row) {
        std::vector<float> scores;
        for (std::size_t i = 0; i < output_.height; ++i) {
          scores.push_back(values[(i * rows + row) * lanes + lane]);
        }
        places.push_back(column(std::move(scores)) * step);
        sum += places.back();
      }
      auto& points = result.lanes.emplace_back();
      for (std::size_t row = 0; row < rows; ++row) {
        const float y = kRows[row] / static_cast<float>(input_.height) *
                        static_cast<float>(size.height);
        points.emplace_back(sum > kLeast && places[row] > 0 ? places[row] - 1 : kNowhere, y);
      }
    }
    return result;
  }

  std::vector<UltraFastResult> post_process() override {
    std::vector<UltraFastResult> results;
    for (int i = 0; i < number_; ++i) results.push_back(post_process(static_cast<unsigned>(i)));
    return results;
  }

 private:
  InputTensor input_;
  OutputTensor output_;
  int& number_;
  std::vector<cv::Size>& sizes_;
};

class UltraFastImp : public UltraFast {
 public:
  UltraFastImp(const std::string& name, xir::Attrs* attrs, bool need_preprocess)
      : UltraFast(name, attrs, need_preprocess),
        post_(UltraFastPost::create(configurable_dpu_task_->getInputTensor()[0],
                                    configurable_dpu_task_->getOutputTensor()[0],
                                    configurable_dpu_task_->getConfig(), 1, number_, sizes_)) {}

  UltraFastResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageRGB(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    sizes_ = {image.size()};
    return post_->post_process(0);
  }
  std::vector<UltraFastResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }

 private:
  int number_ = 1;
  std::vector<cv::Size> sizes_;
  std::unique_ptr<UltraFastPost> post_;
};

}  // namespace

std::unique_ptr<UltraFastPost> UltraFastPost::create(
    const std::vector<InputTensor>& input_tensors, const std::vector<OutputTensor>& output_tensors,
    const proto::DpuModelParam&, int, int& real_batch_size, std::vector<cv::Size>& pic_size) {
  return std::make_unique<UltraFastPostImp>(input_tensors.at(0), output_tensors.at(0),
                                            real_batch_size, pic_size);
}

std::unique_ptr<UltraFast> UltraFast::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<UltraFast> UltraFast::create(const std::string& model_name, xir::Attrs* attrs,
                                             bool need_preprocess) {
  return std::make_unique<UltraFastImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
