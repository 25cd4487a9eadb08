// SPDX-License-Identifier: Apache-2.0
// CenterPoint: points in, objects out. One network makes features of the points of each pillar; they
// are put where the pillars stand, as the image that the other network looks at.
#include "vitis/ai/centerpoint.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "one_by_one.hpp"
#include "outputs.hpp"
#include "scatter.hpp"
#include "vitis/ai/configurable_dpu_task.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::Pillar;

constexpr std::size_t kFields = 4;  // of a point
constexpr std::array<float, 3> kStart{0, -40, -6}, kEnd{80, 40, 8};
constexpr std::array<float, kFields> kMean{40, 0, 1, 73.5f},
    kScale{0.025f, 0.025f, 0.1429f, 0.0351f};

class CenterPointImp : public CenterPoint {
 public:
  CenterPointImp(const std::string& model_name_0, const std::string& model_name_1)
      : pillars_(ConfigurableDpuTask::create(model_name_0, false)),
        scene_(ConfigurableDpuTask::create(model_name_1, false)) {
    const auto input = pillars_->getInputTensor().at(0).at(0);
    const auto features = pillars_->getOutputTensor().at(0).at(0);
    const auto image = scene_->getInputTensor().at(0).at(0);
    if (input.channel != kFields) {
      throw std::runtime_error("input " + input.name + " has " + std::to_string(input.channel) +
                               " channels, but points have four");
    }
    if (opendpu::tasks::elements(features) != input.height * image.channel) {
      throw std::runtime_error("output " + features.name + " must have " +
                               std::to_string(image.channel) + " values for each of " +
                               std::to_string(input.height) + " pillars, as input " + image.name +
                               " has channels");
    }
  }

  int getInputWidth() const override { return pillars_->getInputWidth(); }
  int getInputHeight() const override { return pillars_->getInputHeight(); }
  std::size_t get_input_batch() const override { return pillars_->get_input_batch(); }

  std::vector<CenterPointResult> run(const std::vector<float>& input) override {
    if (input.size() % kFields != 0) {
      throw std::invalid_argument("points have four values each, but there are " +
                                  std::to_string(input.size()));
    }
    const auto standing = fill(input);
    pillars_->run(0);
    opendpu::tasks::scatter(standing, pillars_->getOutputTensor().at(0).at(0),
                            scene_->getInputTensor().at(0).at(0));
    scene_->run(0);
    return post_process(scene_->getOutputTensor(), 0);
  }
  std::vector<std::vector<CenterPointResult>> run(
      const std::vector<std::vector<float>>& inputs) override {
    return opendpu::tasks::one_by_one(
        inputs, [this](const std::vector<float>& input) { return run(input); });
  }

 private:
  // Puts points into pillars, those that come first, as elements of the first network's input.
  std::vector<Pillar> fill(const std::vector<float>& points) {
    const auto input = pillars_->getInputTensor().at(0).at(0);
    const auto image = scene_->getInputTensor().at(0).at(0);
    const std::array<int, 3> cells{static_cast<int>(image.width), static_cast<int>(image.height), 1};
    const float step = library::tensor_scale(input);
    auto* elements = static_cast<std::int8_t*>(input.get_data(0));
    std::fill_n(elements, input.size / input.batch, std::int8_t{0});
    std::vector<Pillar> pillars;
    std::vector<std::size_t> filled;
    std::vector<int> pillar_of(image.width * image.height, -1);
    for (const float* point = points.data(); point != points.data() + points.size();
         point += kFields) {
      std::array<int, 3> place;
      bool inside = true;
      for (std::size_t i = 0; i < 3; ++i) {
        const float cell = (kEnd[i] - kStart[i]) / static_cast<float>(cells[i]);
        const float whole = std::floor((point[i] - kStart[i]) / cell);
        inside = inside && whole >= 0 && whole < static_cast<float>(cells[i]);
        place[i] = inside ? static_cast<int>(whole) : 0;
      }
      if (!inside) continue;
      auto& pillar = pillar_of[static_cast<std::size_t>(place[1] * cells[0] + place[0])];
      if (pillar < 0) {
        if (pillars.size() == input.height) continue;
        pillar = static_cast<int>(pillars.size());
        pillars.push_back({place[1], place[0]});
        filled.push_back(0);
      }
      auto& count = filled[static_cast<std::size_t>(pillar)];
      if (count == input.width) continue;
      auto* target =
          elements + (static_cast<std::size_t>(pillar) * input.width + count++) * kFields;
      for (std::size_t i = 0; i < kFields; ++i) {
        const float value = std::round((point[i] - kMean[i]) * (kScale[i] * step));
        target[i] = static_cast<std::int8_t>(static_cast<int>(value));
      }
    }
    return pillars;
  }

  std::unique_ptr<ConfigurableDpuTask> pillars_, scene_;
};

}  // namespace

std::unique_ptr<CenterPoint> CenterPoint::create(const std::string& model_name_0,
                                                 const std::string& model_name_1) {
  return std::make_unique<CenterPointImp>(model_name_0, model_name_1);
}

}  // namespace ai
}  // namespace vitis
