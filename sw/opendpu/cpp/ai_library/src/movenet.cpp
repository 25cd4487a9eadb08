// SPDX-License-Identifier: Apache-2.0
// MoveNet: images in, joints of one person out.
#include "vitis/ai/movenet.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "one_by_one.hpp"
#include "outputs.hpp"
#include "vitis/ai/configurable_dpu_task.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::OutputTensor;

// Likelihoods are divided by the distance from where the joint should be, in cells, and this much.
constexpr double kNearness = 1.8;

// Heat of joints, of persons' centres; from a centre to its joints, from a joint's cell to its place.
struct Maps {
  Maps(const std::vector<OutputTensor>& outputs, const proto::MovenetParam& param)
      : width(outputs.at(0).width), height(outputs.at(0).height), joints(outputs.at(0).channel) {
    const std::size_t channels[] = {joints, 1, 2 * joints, 2 * joints};
    for (std::size_t i = 0; i < std::size(channels); ++i) {
      if (outputs.at(i).width == width && outputs[i].height == height &&
          outputs[i].channel == channels[i]) {
        continue;
      }
      throw std::runtime_error("output " + outputs[i].name + " is " +
                               std::to_string(outputs[i].height) + "x" +
                               std::to_string(outputs[i].width) + "x" +
                               std::to_string(outputs[i].channel) + ", but must be " +
                               std::to_string(height) + "x" + std::to_string(width) + "x" +
                               std::to_string(channels[i]));
    }
    if (static_cast<std::size_t>(param.center_weight_size()) != width * height) {
      throw std::runtime_error("movenet_param has " + std::to_string(param.center_weight_size()) +
                               " center_weight, but there are " + std::to_string(width * height) +
                               " cells");
    }
    heat = opendpu::tasks::values(outputs[0], 0);
    centre = opendpu::tasks::values(outputs[1], 0);
    regression = opendpu::tasks::values(outputs[2], 0);
    offset = opendpu::tasks::values(outputs[3], 0);
    for (auto* map : {&heat, &centre}) {
      for (auto& value : *map) value = opendpu::tasks::sigmoid(value);
    }
  }

  std::size_t width, height, joints;
  std::vector<float> heat, centre, regression, offset;
};

// A square of a distance is a whole number, toward zero, as in the library.
double square(double distance) { return std::trunc(distance * distance); }

// The cell of a joint that should be at x, y.
std::size_t nearest(const Maps& maps, std::size_t joint, double x, double y) {
  std::size_t best = 0;
  float highest = -1;
  for (std::size_t i = 0; i < maps.width * maps.height; ++i) {
    const double distance = std::sqrt(square(static_cast<double>(i % maps.width) - x) +
                                      square(static_cast<double>(i / maps.width) - y));
    const float value = maps.heat[i * maps.joints + joint] / static_cast<float>(distance + kNearness);
    if (value > highest) {
      highest = value;
      best = i;
    }
  }
  return best;
}

std::vector<cv::Point2f> joints(const Maps& maps, const proto::MovenetParam& param,
                                cv::Size size) {
  std::vector<float> weighted;
  for (std::size_t i = 0; i < maps.centre.size(); ++i) {
    weighted.push_back(maps.centre[i] * param.center_weight(static_cast<int>(i)));
  }
  const auto middle = static_cast<std::size_t>(
      std::max_element(weighted.begin(), weighted.end()) - weighted.begin());
  std::vector<cv::Point2f> made;
  for (std::size_t i = 0; i < maps.joints; ++i) {
    const float* way = &maps.regression[2 * (middle * maps.joints + i)];
    const auto cell = nearest(maps, i, way[0] + 0.5 + static_cast<double>(middle % maps.width),
                              way[1] + 0.5 + static_cast<double>(middle / maps.width));
    const float* offset = &maps.offset[2 * (cell * maps.joints + i)];
    const auto side = static_cast<float>(maps.width);
    cv::Point2f place((static_cast<float>(cell % maps.width) + offset[0]) / side,
                      (static_cast<float>(cell / maps.width) + offset[1]) / side);
    if (maps.heat[cell * maps.joints + i] < param.conf_threshold()) place = {-1, -1};
    made.emplace_back(place.x * static_cast<float>(size.width),
                      place.y * static_cast<float>(size.height));
  }
  return made;
}

class MovenetImp : public TConfigurableDpuTask<Movenet> {
 public:
  using TConfigurableDpuTask<Movenet>::TConfigurableDpuTask;

  MovenetResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageRGB(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    const auto& param = task.getConfig().movenet_param();
    if (param.layer_name_size() != 4) {
      throw std::runtime_error("movenet_param has " + std::to_string(param.layer_name_size()) +
                               " layer_name, but must have four: heat, centre, regression, offset");
    }
    const auto outputs =
        opendpu::tasks::outputs_named(task.getOutputTensor()[0], param.layer_name());
    return {getInputWidth(), getInputHeight(), joints(Maps(outputs, param), param, image.size())};
  }
  std::vector<MovenetResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
};

}  // namespace

std::unique_ptr<Movenet> Movenet::create(const std::string& model_name, bool need_preprocess) {
  return std::make_unique<MovenetImp>(model_name, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
