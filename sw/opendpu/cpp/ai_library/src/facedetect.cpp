// SPDX-License-Identifier: Apache-2.0
// FaceDetect: images in, faces out.
#include "vitis/ai/facedetect.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "outputs.hpp"
#include "with_buffers.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::OutputTensor;

// Pixels of the input a cell.
constexpr int kStride = 4;

// Corners in pixels of the input.
struct Face {
  float left, top, right, bottom, score;
};

// Pixels count at both ends, so a side has one more than its corners are apart.
float area(float left, float top, float right, float bottom) {
  return std::max(0.f, right - left + 1) * std::max(0.f, bottom - top + 1);
}

float overlap(const Face& a, const Face& b) {
  const float shared = area(std::max(a.left, b.left), std::max(a.top, b.top),
                            std::min(a.right, b.right), std::min(a.bottom, b.bottom));
  return shared / (area(a.left, a.top, a.right, a.bottom) +
                   area(b.left, b.top, b.right, b.bottom) - shared);
}

const OutputTensor& with_channels(const std::vector<OutputTensor>& outputs, std::size_t number) {
  for (const auto& output : outputs) {
    if (output.channel == number) return output;
  }
  throw std::runtime_error("no output has " + std::to_string(number) + " channels");
}

std::vector<Face> remaining(std::vector<Face> faces, float nms_threshold) {
  std::stable_sort(faces.begin(), faces.end(),
                   [](const Face& a, const Face& b) { return a.score > b.score; });
  std::vector<Face> kept;
  for (const auto& face : faces) {
    const auto covered = [&](const Face& other) { return overlap(face, other) >= nms_threshold; };
    if (std::none_of(kept.begin(), kept.end(), covered)) kept.push_back(face);
  }
  return kept;
}

class FaceDetectImp : public opendpu::tasks::WithBuffers<FaceDetect, FaceDetectResult> {
 public:
  FaceDetectImp(const std::string& name, xir::Attrs* attrs, bool need_preprocess)
      : WithBuffers(name, attrs, need_preprocess),
        threshold_(configurable_dpu_task_->getConfig().dense_box_param().det_threshold()) {}

  float getThreshold() const override { return threshold_; }
  void setThreshold(float threshold) override { threshold_ = threshold; }

  FaceDetectResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageBGR(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    return found();
  }

 protected:
  FaceDetectResult found() override {
    auto& task = *configurable_dpu_task_;
    return face_detect_post_process(task.getInputTensor(), task.getOutputTensor(),
                                    task.getConfig(), threshold_)
        .front();
  }

 private:
  float threshold_;
};

}  // namespace

std::vector<FaceDetectResult> face_detect_post_process(
    const std::vector<std::vector<library::InputTensor>>& input_tensors,
    const std::vector<std::vector<library::OutputTensor>>& output_tensors,
    const proto::DpuModelParam& config, const float det_threshold) {
  const auto& input = input_tensors.at(0).at(0);
  const float width = static_cast<float>(input.width), height = static_cast<float>(input.height);
  const auto& corners = with_channels(output_tensors.at(0), 4);
  const auto& classes = with_channels(output_tensors.at(0), 2);
  std::vector<FaceDetectResult> results;
  for (std::size_t sample = 0; sample < corners.batch; ++sample) {
    const auto places = opendpu::tasks::values(corners, sample);
    auto scores = opendpu::tasks::values(classes, sample);
    std::vector<Face> faces;
    for (std::size_t i = 0; i < corners.height * corners.width; ++i) {
      opendpu::tasks::softmax(&scores[2 * i], 2);
      const float score = scores[2 * i + 1];
      if (!(score > det_threshold)) continue;
      const float x = static_cast<float>(kStride * (i % corners.width));
      const float y = static_cast<float>(kStride * (i / corners.width));
      const float* place = &places[4 * i];
      faces.push_back({x + place[0], y + place[1], x + place[2], y + place[3], score});
    }
    FaceDetectResult result{static_cast<int>(input.width), static_cast<int>(input.height), {}};
    for (const auto& face : remaining(faces, config.dense_box_param().nms_threshold())) {
      result.rects.push_back({face.left / width, face.top / height,
                              (face.right - face.left) / width, (face.bottom - face.top) / height,
                              face.score});
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::unique_ptr<FaceDetect> FaceDetect::create(const std::string& model_name,
                                               bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<FaceDetect> FaceDetect::create(const std::string& model_name, xir::Attrs* attrs,
                                               bool need_preprocess) {
  return std::make_unique<FaceDetectImp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
