// SPDX-License-Identifier: Apache-2.0
// FairMot: images in, persons and their features out.
#include "vitis/ai/fairmot.hpp"

#include <algorithm>
#include <opencv2/imgproc.hpp>
#include <stdexcept>
#include <string>

#include "one_by_one.hpp"
#include "outputs.hpp"
#include "vitis/ai/nnpp/apply_nms.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::OutputTensor;

// Pixels of the input a cell.
constexpr float kStride = 4;
constexpr int kGrey = 128;

// What layer_name lists, in this order: where in a cell a person's centre is, how likely one is
// there, how large, and the features.
enum Layer { OFFSETS, SCORES, SIZES, FEATURES, LAYERS };

// An image at the top left of the input, grey beside it or below, and its size there.
struct Fitted {
  cv::Mat image;
  int width, height;
};

Fitted fitted(const cv::Mat& image, int width, int height) {
  if (image.empty()) throw std::invalid_argument("the image is empty");
  const float ratio = static_cast<float>(image.cols) / static_cast<float>(image.rows);
  const float wanted = static_cast<float>(width) / static_cast<float>(height);
  const auto whole = [](float value) { return std::max(1, static_cast<int>(value)); };
  Fitted made{{}, width, height};
  if (ratio > wanted) made.height = whole(static_cast<float>(width) / ratio);
  if (ratio < wanted) made.width = whole(static_cast<float>(height) * ratio);
  cv::copyMakeBorder(opendpu::tasks::resized(image, made.width, made.height), made.image, 0,
                     height - made.height, 0, width - made.width, cv::BORDER_CONSTANT,
                     cv::Scalar::all(kGrey));
  return made;
}

std::vector<OutputTensor> layers(const std::vector<OutputTensor>& outputs,
                                 const proto::FairMotParam& param) {
  if (param.layer_name_size() != LAYERS) {
    throw std::runtime_error("fair_mot_param has " + std::to_string(param.layer_name_size()) +
                             " layer_name, but must have four: offsets, scores, sizes, features");
  }
  auto made = opendpu::tasks::outputs_named(outputs, param.layer_name());
  const std::size_t channels[] = {2, 1, 2, made[FEATURES].channel};
  for (int i = 0; i < LAYERS; ++i) {
    if (made[i].channel == channels[i] && made[i].width == made[SCORES].width &&
        made[i].height == made[SCORES].height) {
      continue;
    }
    throw std::runtime_error("output " + made[i].name + " has " + std::to_string(made[i].channel) +
                             " channels or other cells than " + made[SCORES].name +
                             ", but must have " + std::to_string(channels[i]) +
                             " in the same cells");
  }
  return made;
}

FairMotResult found(const std::vector<OutputTensor>& tensors, const proto::FairMotParam& param,
                    const Fitted& image) {
  const auto offsets = opendpu::tasks::values(tensors[OFFSETS], 0);
  const auto likely = opendpu::tasks::values(tensors[SCORES], 0);
  const auto sizes = opendpu::tasks::values(tensors[SIZES], 0);
  auto features = opendpu::tasks::values(tensors[FEATURES], 0);
  const float x_share = kStride / static_cast<float>(image.width);
  const float y_share = kStride / static_cast<float>(image.height);
  std::vector<std::vector<float>> places;
  std::vector<float> scores;
  std::vector<std::size_t> cells;
  for (std::size_t i = 0; i < likely.size(); ++i) {
    const float score = opendpu::tasks::sigmoid(likely[i]);
    if (score < param.conf_threshold()) continue;
    const auto column = static_cast<float>(i % tensors[SCORES].width);
    const auto row = static_cast<float>(i / tensors[SCORES].width);
    places.push_back({(column + offsets[2 * i]) * x_share, (row + offsets[2 * i + 1]) * y_share,
                      sizes[2 * i] * x_share, sizes[2 * i + 1] * y_share});
    scores.push_back(score);
    cells.push_back(i);
  }
  std::vector<std::size_t> kept;
  applyNMS(places, scores, param.nms_threshold(), param.conf_threshold(), kept, true);
  FairMotResult result;
  const auto number = static_cast<int>(tensors[FEATURES].channel);
  for (const auto i : kept) {
    const auto& place = places[i];
    result.bboxes.push_back({place[0] - place[2] / 2, place[1] - place[3] / 2, place[2], place[3],
                             1, scores[i]});
    cv::Mat normalized;
    cv::normalize(cv::Mat(1, number, CV_32F, &features[cells[i] * tensors[FEATURES].channel]),
                  normalized);
    result.feats.push_back(normalized);
  }
  return result;
}

class FairMotImp : public FairMot {
 public:
  using FairMot::FairMot;

  FairMotResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    const auto& param = task.getConfig().fair_mot_param();
    const auto within = fitted(image, getInputWidth(), getInputHeight());
    task.setInputImageRGB(within.image);
    task.run(0);
    auto result = found(layers(task.getOutputTensor()[0], param), param, within);
    result.width = getInputWidth();
    result.height = getInputHeight();
    return result;
  }
  std::vector<FairMotResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
};

}  // namespace

std::unique_ptr<FairMot> FairMot::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<FairMot> FairMot::create(const std::string& model_name, xir::Attrs* attrs,
                                         bool need_preprocess) {
  return std::make_unique<FairMotImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
