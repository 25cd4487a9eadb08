// SPDX-License-Identifier: Apache-2.0
// Cflownet: maps and noise in, probabilities out.
#include "vitis/ai/cflownet.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "one_by_one.hpp"
#include "outputs.hpp"
#include "vitis/ai/env_config.hpp"

DEF_ENV_PARAM(ENABLE_CFLOW_CMPDATA, "0")
DEF_ENV_PARAM(ENABLE_CFLOW_ROUND, "1")

namespace vitis {
namespace ai {
namespace {

// In place of noise, where results are compared.
constexpr int kKnown[] = {4, -3, -23, 24, 12, -32};

std::int8_t element(float value) {
  return static_cast<std::int8_t>(std::clamp(value, -128.f, 127.f));
}

class CflownetImp : public Cflownet {
 public:
  CflownetImp(const std::string& model_name, bool need_preprocess)
      : Cflownet(model_name, need_preprocess), generator_(std::random_device{}()) {
    auto inputs = configurable_dpu_task_->getInputTensor().at(0);
    if (inputs.size() != 2) {
      throw std::runtime_error(model_name + " has " + std::to_string(inputs.size()) +
                               " inputs, but must have two: a map and noise");
    }
    std::stable_sort(inputs.begin(), inputs.end(),
                     [](const auto& a, const auto& b) { return elements(a) > elements(b); });
    map_ = std::make_unique<library::InputTensor>(inputs[0]);
    noise_ = std::make_unique<library::InputTensor>(inputs[1]);
  }

  CflownetResult run(const float* map) override {
    fill(*map_, [&](std::size_t i) {
      const float value = map[i] * tensor_scale(*map_);
      return ENV_PARAM(ENABLE_CFLOW_ROUND) ? std::round(value) : value;
    });
    const bool known = ENV_PARAM(ENABLE_CFLOW_CMPDATA);
    fill(*noise_, [&](std::size_t i) {
      if (known) return static_cast<float>(kKnown[i % std::size(kKnown)]);
      return static_cast<float>(std::round(normal_(generator_) * tensor_scale(*noise_)));
    });
    configurable_dpu_task_->run(0);
    CflownetResult result{
        static_cast<int>(map_->width), static_cast<int>(map_->height),
        opendpu::tasks::values(configurable_dpu_task_->getOutputTensor().at(0).at(0), 0)};
    for (auto& value : result.data) value = opendpu::tasks::sigmoid(value);
    return result;
  }
  std::vector<CflownetResult> run(const std::vector<const float*> maps) override {
    return opendpu::tasks::one_by_one(maps, [&](const float* map) { return run(map); });
  }

 private:
  static std::size_t elements(const library::InputTensor& input) {
    return input.height * input.width * input.channel;
  }
  template <typename Value>
  static void fill(const library::InputTensor& input, Value value) {
    auto* data = static_cast<std::int8_t*>(input.get_data(0));
    for (std::size_t i = 0; i < elements(input); ++i) data[i] = element(value(i));
  }

  std::unique_ptr<library::InputTensor> map_, noise_;
  std::mt19937 generator_;
  std::normal_distribution<double> normal_;
};

}  // namespace

std::unique_ptr<Cflownet> Cflownet::create(const std::string& model_name, bool need_preprocess) {
  return std::make_unique<CflownetImp>(model_name, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
