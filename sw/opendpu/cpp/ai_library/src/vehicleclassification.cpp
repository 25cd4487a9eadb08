// SPDX-License-Identifier: Apache-2.0
// Makes and types of cars: images in, the likeliest classes out.
#include "vitis/ai/vehicleclassification.hpp"

#include <iterator>

#include "one_by_one.hpp"
#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

enum Table { kMake = 1, kType = 2 };

// With the commas that names have in Vitis AI.
constexpr const char* kMakes[] = {
    "acura,", "audi,", "bmw,", "buick,", "cadillac,", "chevrolet,", "chrysler,", "dodge,",
    "ford,", "gmc,", "honda,", "hummer,", "hyundai,", "infiniti,", "isuzu,", "jaguar,", "jeep,",
    "kia,", "landrover,", "lexus,", "lincoln,", "mazda,", "mercedes_benz,", "mercury,", "mini,",
    "mitsubishi,", "nissan,", "oldsmobile,", "plymouth,", "pontiac,", "porsche,", "saab,",
    "saturn,", "scion,", "subaru,", "suzuki,", "toyota,", "volkswagen,", "volvo"};
// In the order of the data set CompCars.
constexpr const char* kTypes[] = {
    "MPV,", "SUV,", "sedan,", "hatchback,", "minibus,", "fastback,", "estate,", "pickup,",
    "hardtop convertible,", "sports,", "crossover,", "convertible"};

class VehicleClassificationImp : public VehicleClassification {
 public:
  using VehicleClassification::VehicleClassification;

  VehicleClassificationResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageRGB(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    return vehicleclassification_post_process(task.getInputTensor()[0], task.getOutputTensor()[0],
                                              task.getConfig())
        .front();
  }
  std::vector<VehicleClassificationResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
};

}  // namespace

const char* VehicleClassificationResult::lookup(int index) {
  const auto size = type == kType ? std::size(kTypes) : std::size(kMakes);
  if (index < 0 || static_cast<std::size_t>(index) >= size) return "";
  return type == kType ? kTypes[index] : kMakes[index];
}

std::vector<VehicleClassificationResult> vehicleclassification_post_process(
    const std::vector<library::InputTensor>& input_tensors,
    const std::vector<library::OutputTensor>& output_tensors, const proto::DpuModelParam& config) {
  const auto& param = config.vehicleclassification_param();
  const auto& input = input_tensors.at(0);
  const auto& output = param.layer_name().empty()
                           ? output_tensors.at(0)
                           : opendpu::tasks::output_named(output_tensors, param.layer_name());
  std::vector<VehicleClassificationResult> results;
  for (std::size_t sample = 0; sample < output.batch; ++sample) {
    VehicleClassificationResult result{static_cast<int>(input.width),
                                       static_cast<int>(input.height), {},
                                       param.label_type() == "VEHICLE_TYPE" ? kType : kMake};
    for (const auto& [index, score] : opendpu::tasks::likeliest(output, sample, param.top_k())) {
      result.scores.push_back({index, score});
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::unique_ptr<VehicleClassification> VehicleClassification::create(const std::string& model_name,
                                                                     bool need_preprocess) {
  return std::make_unique<VehicleClassificationImp>(model_name, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
