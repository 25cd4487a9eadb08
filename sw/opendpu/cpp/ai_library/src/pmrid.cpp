// SPDX-License-Identifier: Apache-2.0
// PMRID: noisy raw images in, the same without noise out. What a pixel counts is first made
// independent of the camera's ISO number (the paper's k-sigma transform, with the constants of its
// sensor), so that one network serves all of them; the network gives what is to be added.
#include "vitis/ai/pmrid.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

constexpr float kAnchor = 1600;  // the ISO number that the network was trained for
constexpr float kWhite = 959;    // digits of the sensor for 1
constexpr float kGain = 256;     // values of the network for 1
constexpr int kMultiple = 32;
constexpr int kColours = 4;  // red, green, green, blue

// value * slope + shift, in units of 1.
struct Transform {
  explicit Transform(float iso) {
    const float k = gain(iso), anchored = gain(kAnchor);
    slope = anchored / k;
    shift = (noise(iso) / (k * k) - noise(kAnchor) / (anchored * anchored)) * anchored / kWhite;
  }
  static float gain(float iso) { return 0.0005995267f * iso + 0.00868861f; }
  static float noise(float iso) {
    return 7.11772e-7f * iso * iso + 6.514934e-4f * iso + 0.11492713f;
  }
  float slope, shift;
};

// How many rows or columns are added on each side.
int margin(int half) { return (kMultiple - half % kMultiple) / 2; }

std::int8_t element(float value) {
  return static_cast<std::int8_t>(static_cast<int>(std::clamp(value + 0.5f, -128.f, 127.f)));
}

class PMRIDImp : public PMRID {
 public:
  using PMRID::PMRID;

  std::vector<float> run(const cv::Mat& image, float raw_info) override {
    auto& task = *configurable_dpu_task_;
    const auto input = task.getInputTensor().at(0).at(0);
    const auto output = task.getOutputTensor().at(0).at(0);
    check(image, input, output);
    const Transform transform(raw_info);
    cv::Mat turned;
    cv::flip(image, turned, -1);
    fill(turned, transform, input);
    task.run(0);

    const auto added = opendpu::tasks::values(output, 0);
    const auto* given = static_cast<const std::int8_t*>(input.get_data(0));
    const float step = 1 / library::tensor_scale(input);
    std::vector<float> made(static_cast<std::size_t>(image.rows) * image.cols);
    for (int row = 0; row < image.rows; ++row) {
      for (int column = 0; column < image.cols; ++column) {
        const auto place = index(row, column, image, input);
        const float sum = static_cast<float>(given[place]) * step + added[place];
        made[static_cast<std::size_t>(row) * image.cols + column] =
            (sum / kGain - transform.shift) / transform.slope;
      }
    }
    return made;
  }

  std::vector<std::vector<float>> run(const std::vector<cv::Mat>& images,
                                      const std::vector<float>& raw_infos) override {
    if (images.size() != raw_infos.size()) {
      throw std::invalid_argument(std::to_string(images.size()) + " images, but " +
                                  std::to_string(raw_infos.size()) + " ISO numbers given");
    }
    std::vector<std::vector<float>> made;
    for (std::size_t i = 0; i < images.size(); ++i) made.push_back(run(images[i], raw_infos[i]));
    return made;
  }

 private:
  static void check(const cv::Mat& image, const library::InputTensor& input,
                    const library::OutputTensor& output) {
    const auto fits = [](int pixels, std::size_t side) {
      return pixels > 0 && pixels % 2 == 0 &&
             pixels / 2 + 2 * margin(pixels / 2) == static_cast<int>(side);
    };
    if (image.type() != CV_16UC1 || !fits(image.rows, input.height) ||
        !fits(image.cols, input.width) || input.channel != kColours) {
      throw std::invalid_argument(
          "a raw image of " + std::to_string(image.rows) + "x" + std::to_string(image.cols) +
          " does not fit input " + input.name + " of " + std::to_string(input.height) + "x" +
          std::to_string(input.width) + "x" + std::to_string(input.channel) +
          "; it must have one channel of 16 bits and an even number of rows and columns, half of "
          "which are filled up to those of the input");
    }
    if (output.size != input.size || output.channel != input.channel) {
      throw std::runtime_error("output " + output.name + " must be as large as input " +
                               input.name);
    }
  }

  // Where the input has a pixel of the raw image.
  static std::size_t index(int row, int column, const cv::Mat& image,
                           const library::InputTensor& input) {
    const auto y = static_cast<std::size_t>(row / 2 + margin(image.rows / 2));
    const auto x = static_cast<std::size_t>(column / 2 + margin(image.cols / 2));
    return (y * input.width + x) * kColours + static_cast<std::size_t>(2 * (row % 2) + column % 2);
  }

  static void fill(const cv::Mat& image, const Transform& transform,
                   const library::InputTensor& input) {
    const float scale = kGain * library::tensor_scale(input);
    auto* elements = static_cast<std::int8_t*>(input.get_data(0));
    std::fill_n(elements, input.size / input.batch, element(transform.shift * scale));
    for (int row = 0; row < image.rows; ++row) {
      const auto* pixels = image.ptr<std::uint16_t>(row);
      for (int column = 0; column < image.cols; ++column) {
        const float value = pixels[column] / 65535.f * transform.slope + transform.shift;
        elements[index(row, column, image, input)] = element(value * scale);
      }
    }
  }
};

}  // namespace

std::unique_ptr<PMRID> PMRID::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<PMRID> PMRID::create(const std::string& model_name, xir::Attrs* attrs,
                                     bool need_preprocess) {
  return std::make_unique<PMRIDImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
