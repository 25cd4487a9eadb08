// SPDX-License-Identifier: Apache-2.0
// Segmentation3D: points in, their labels out.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "outputs.hpp"
#include "range_image.hpp"
#include "vitis/ai/3Dsegmentation.hpp"
#include "vitis/ai/configurable_dpu_task.hpp"

namespace vitis {
namespace ai {
namespace {

constexpr std::size_t kRows = 4, kChannels = 5;
// Of range, x, y, z and reflection in SemanticKITTI.
constexpr std::array<float, kChannels> kMeans{12.12f, 10.88f, 0.23f, -1.04f, 0.21f},
    kDeviations{12.32f, 11.47f, 6.91f, 0.86f, 0.16f};
// SemanticKITTI's labels of the classes.
constexpr std::array<int, 20> kLabels{0,  10, 11, 15, 18, 20, 30, 31, 32, 40,
                                      44, 48, 49, 50, 51, 70, 71, 72, 80, 81};

class Segmentation3DImp : public TConfigurableDpuTask<Segmentation3D> {
 public:
  Segmentation3DImp(const std::string& model_name, bool need_preprocess)
      : TConfigurableDpuTask<Segmentation3D>(model_name, need_preprocess) {
    const auto input = configurable_dpu_task_->getInputTensor().at(0).at(0);
    const auto output = configurable_dpu_task_->getOutputTensor().at(0).at(0);
    if (input.channel != kChannels || output.channel != kLabels.size() ||
        output.height != input.height || output.width != input.width) {
      throw std::runtime_error(
          "Segmentation3D needs a network with an input of five channels, and an output of as many "
          "pixels with 20");
    }
  }

  Segmentation3DResult run(std::vector<std::vector<float>>& array) override {
    const auto alike = [&](const auto& row) { return row.size() == array[0].size(); };
    if (array.size() != kRows || !std::all_of(array.begin(), array.end(), alike)) {
      throw std::invalid_argument("points must be four rows of as many values: x, y, z, reflection");
    }
    const auto image = opendpu::tasks::range_image(array, getInputHeight(), getInputWidth());
    fill(array, image);
    configurable_dpu_task_->run(0);
    const auto classes = likeliest();
    const bool enable_knn =
        configurable_dpu_task_->getConfig().segmentation_3d_param().enable_knn();
    std::vector<int> labels;
    if (enable_knn) {
      labels = opendpu::tasks::classes_by_neighbours(image, classes, kLabels.size());
    } else {
      for (const auto pixel : image.pixels) labels.push_back(classes[pixel]);
    }
    for (int& label : labels) label = kLabels[static_cast<std::size_t>(label)];
    return {getInputWidth(), getInputHeight(), labels};
  }
  std::vector<Segmentation3DResult> run(
      std::vector<std::vector<std::vector<float>>>& arrays) override {
    std::vector<Segmentation3DResult> results;
    for (auto& array : arrays) results.push_back(run(array));
    return results;
  }

 private:
  // Pixels without a point are 0; the authors have none where the first point is, either.
  void fill(const std::vector<std::vector<float>>& array,
            const opendpu::tasks::RangeImage& image) const {
    const auto tensor = configurable_dpu_task_->getInputTensor().at(0).at(0);
    const float step = library::tensor_scale(tensor);
    auto* element = static_cast<std::int8_t*>(tensor.get_data(0));
    for (const int there : image.points) {
      const auto point = static_cast<std::size_t>(std::max(there, 0));
      for (std::size_t c = 0; c < kChannels; ++c) {
        if (point == 0) {
          *element++ = 0;
          continue;
        }
        const float value = c == 0 ? image.ranges[point] : array[c - 1][point];
        const float whole = std::round((value - kMeans[c]) / kDeviations[c] * step);
        *element++ = static_cast<std::int8_t>(std::clamp(whole, -128.f, 127.f));
      }
    }
  }

  std::vector<int> likeliest() const {
    const auto output = configurable_dpu_task_->getOutputTensor().at(0).at(0);
    const auto values = opendpu::tasks::values(output, 0);
    std::vector<int> made;
    for (auto at = values.begin(); at != values.end(); at += kLabels.size()) {
      made.push_back(static_cast<int>(std::max_element(at, at + kLabels.size()) - at));
    }
    return made;
  }
};

}  // namespace

std::unique_ptr<Segmentation3D> Segmentation3D::create(const std::string& model_name,
                                                       bool need_mean_scale_process) {
  return std::make_unique<Segmentation3DImp>(model_name, need_mean_scale_process);
}

}  // namespace ai
}  // namespace vitis
