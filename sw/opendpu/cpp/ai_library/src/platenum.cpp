// SPDX-License-Identifier: Apache-2.0
// PlateNum: pictures of plates in, characters out.
#include "vitis/ai/platenum.hpp"

#include <algorithm>
#include <stdexcept>

#include "averages.hpp"
#include "one_by_one.hpp"
#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::OutputTensor;

// Official abbreviations of provinces, as they are pronounced.
constexpr const char* kProvinces[] = {
    "jing", "hu",  "jin", "yu", "ji",  "jin",   "meng", "liao",  "ji",    "hei", "su",
    "zhe",  "wan", "min", "gan", "lu", "yu",    "e",    "xiang", "yue",   "gui", "qiong",
    "chuan", "gui", "yun", "zang", "shan", "gan", "qing", "ning", "xin"};
// No I, which looks like 1.
constexpr char kLetters[] = "ABCDEFGHJKLMNOPQRSTUVWXYZ";
// Nor an O behind the second place.
constexpr char kCharacters[] = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZ";
constexpr const char* kColors[] = {"Blue", "Yellow"};
constexpr std::size_t kSizes[] = {32, 26, 35, 35, 35, 35, 35, 2};

// The number of the likeliest class; the first one is for nothing, and stands for the second.
std::size_t character(const std::vector<float>& scores) {
  const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(best - 1, 0));
}

class PlateNumImp : public PlateNum {
 public:
  PlateNumImp(const std::string& name, xir::Attrs* attrs, bool need_preprocess)
      : PlateNum(name, attrs, need_preprocess) {
    const auto outputs = configurable_dpu_task_->getOutputTensor();
    const auto& names = configurable_dpu_task_->getConfig().platenum_param().output_tensor_name();
    for (const auto& name_of_output : names) find(outputs, name_of_output);
    if (!names.empty()) return;
    for (std::size_t i = 0; i < outputs.back().size(); ++i) {
      add(outputs.size() - 1, i);
    }
  }

  PlateNumResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageBGR(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    opendpu::tasks::run_over_averages(task);
    return plate_num_post_process(task.getInputTensor(), task.getOutputTensor(), kernels_, places_)
        .front();
  }
  std::vector<PlateNumResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }

 private:
  void add(std::size_t kernel, std::size_t place) {
    kernels_.push_back(static_cast<int>(kernel));
    places_.push_back(static_cast<int>(place));
  }

  void find(const std::vector<std::vector<OutputTensor>>& outputs, const std::string& name) {
    for (std::size_t kernel = 0; kernel < outputs.size(); ++kernel) {
      for (std::size_t i = 0; i < outputs[kernel].size(); ++i) {
        if (outputs[kernel][i].name.find(name) != std::string::npos) return add(kernel, i);
      }
    }
    throw std::runtime_error("no output has '" + name + "' in its name");
  }

  // Of each output, its subgraph and its number there.
  std::vector<int> kernels_, places_;
};

}  // namespace

std::vector<PlateNumResult> plate_num_post_process(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors,
    const std::vector<int>& sub_x, const std::vector<int>& sub_y) {
  if (sub_x.size() != std::size(kSizes) || sub_y.empty()) {
    throw std::runtime_error("a plate has eight outputs, but there are " +
                             std::to_string(sub_x.size()));
  }
  const auto& input = input_tensors.at(0).at(0);
  std::vector<PlateNumResult> results;
  for (std::size_t sample = 0; sample < input.batch; ++sample) {
    PlateNumResult result{static_cast<int>(input.width), static_cast<int>(input.height), {}, {}};
    for (std::size_t i = 0; i < std::size(kSizes); ++i) {
      const auto place = static_cast<std::size_t>(sub_y[std::min(i, sub_y.size() - 1)]);
      const auto& output = output_tensors.at(static_cast<std::size_t>(sub_x[i])).at(place);
      const auto scores = opendpu::tasks::values(output, sample);
      if (scores.size() != kSizes[i]) {
        throw std::runtime_error("output " + output.name + " has " +
                                 std::to_string(scores.size()) + " values, but output " +
                                 std::to_string(i) + " of a plate has " +
                                 std::to_string(kSizes[i]));
      }
      if (i == 0) result.plate_number = kProvinces[character(scores)];
      if (i == 1) result.plate_number += kLetters[character(scores)];
      if (i > 1 && i < 7) result.plate_number += kCharacters[character(scores)];
      if (i == 7) result.plate_color = kColors[scores[1] > scores[0] ? 1 : 0];
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::unique_ptr<PlateNum> PlateNum::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<PlateNum> PlateNum::create(const std::string& model_name, xir::Attrs* attrs,
                                           bool need_preprocess) {
  return std::make_unique<PlateNumImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
