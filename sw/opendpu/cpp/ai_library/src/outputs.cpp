// SPDX-License-Identifier: Apache-2.0
// Outputs as real values, found by names of layers; boxes and what remains of them.
#include "outputs.hpp"

#include <algorithm>
#include <cstdint>
#include <opencv2/imgproc.hpp>
#include <stdexcept>

#include "vitis/ai/nnpp/apply_nms.hpp"

namespace opendpu {
namespace tasks {

std::size_t elements(const OutputTensor& tensor) {
  return tensor.height * tensor.width * tensor.channel;
}

std::vector<float> values(const OutputTensor& tensor, std::size_t sample) {
  std::vector<float> made(elements(tensor));
  if (tensor.dtype == vitis::ai::library::DT_FLOAT) {
    const auto* source = static_cast<const float*>(tensor.get_data(sample));
    std::copy_n(source, made.size(), made.begin());
  } else {
    const auto* source = static_cast<const std::int8_t*>(tensor.get_data(sample));
    const float scale = tensor_scale(tensor);
    std::transform(source, source + made.size(), made.begin(),
                   [scale](std::int8_t value) { return scale * static_cast<float>(value); });
  }
  return made;
}

std::vector<float> values(const std::vector<OutputTensor>& tensors, std::size_t sample) {
  std::vector<float> made;
  made.reserve(elements(tensors));
  for (const auto& tensor : tensors) {
    const auto part = values(tensor, sample);
    made.insert(made.end(), part.begin(), part.end());
  }
  return made;
}

std::size_t elements(const std::vector<OutputTensor>& tensors) {
  std::size_t sum = 0;
  for (const auto& tensor : tensors) sum += elements(tensor);
  return sum;
}

const OutputTensor& output_named(const std::vector<OutputTensor>& outputs,
                                 const std::string& name) {
  std::string names;
  for (const auto& output : outputs) {
    if (output.name.find(name) != std::string::npos) return output;
    names += " " + output.name;
  }
  throw std::runtime_error("no output has '" + name + "' in its name; there are:" + names);
}

const OutputTensor& single_channel(const std::vector<OutputTensor>& outputs) {
  const auto& output = outputs.at(0);
  if (output.channel == 1) return output;
  throw std::runtime_error("output " + output.name + " has " + std::to_string(output.channel) +
                           " channels, but must have one");
}

bool has_probabilities(const OutputTensor& tensor) {
  constexpr float kCoarsest = 1.f / 64;
  if (tensor.name.find("sigmoid") != std::string::npos) return true;
  return tensor.dtype != vitis::ai::library::DT_FLOAT && tensor_scale(tensor) <= kCoarsest;
}

void check_classes(int num_classes) {
  if (num_classes >= 1) return;
  throw std::runtime_error("num_classes is " + std::to_string(num_classes) +
                           ", but must be at least 1");
}

void softmax(float* values, std::size_t number) {
  float sum = 0;
  for (std::size_t i = 0; i < number; ++i) sum += values[i] = std::exp(values[i]);
  for (std::size_t i = 0; i < number; ++i) values[i] /= sum;
}

std::vector<std::pair<int, float>> likeliest(const OutputTensor& tensor, std::size_t sample,
                                             int number) {
  auto scores = values(tensor, sample);
  softmax(scores.data(), scores.size());
  std::vector<std::pair<int, float>> made;
  for (const float score : scores) made.emplace_back(static_cast<int>(made.size()), score);
  std::stable_sort(made.begin(), made.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  made.resize(std::min<std::size_t>(std::max(number, 0), made.size()));
  return made;
}

cv::Mat resized(const cv::Mat& image, int width, int height) {
  if (image.cols == width && image.rows == height) return image;
  if (image.empty()) throw std::invalid_argument("the image is empty");
  cv::Mat made;
  cv::resize(image, made, cv::Size(width, height), 0, 0, cv::INTER_LINEAR);
  return made;
}

std::vector<Kept> suppressed(const std::vector<ClassBox>& boxes, int first, int classes,
                             float nms_threshold, float conf_threshold, int iou_type) {
  std::vector<std::vector<float>> places;
  places.reserve(boxes.size());
  for (const auto& box : boxes) places.push_back({box.x, box.y, box.width, box.height});
  std::vector<Kept> made;
  for (int label = first; label < classes; ++label) {
    std::vector<float> scores;
    scores.reserve(boxes.size());
    for (const auto& box : boxes) scores.push_back(box.scores[label]);
    std::vector<std::size_t> kept;
    vitis::ai::applyNMS(places, scores, nms_threshold, conf_threshold, kept, true, iou_type);
    for (const auto i : kept) {
      const auto& box = boxes[i];
      made.push_back({label, box.scores[label], box.x - box.width / 2, box.y - box.height / 2,
                      box.width, box.height});
    }
  }
  return made;
}

}  // namespace tasks
}  // namespace opendpu
