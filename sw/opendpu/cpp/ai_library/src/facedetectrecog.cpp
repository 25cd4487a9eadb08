// SPDX-License-Identifier: Apache-2.0
// FaceDetectRecog: images in, faces and their features out.
#include "vitis/ai/facedetectrecog.hpp"

#include <fstream>
#include <opencv2/imgproc.hpp>
#include <stdexcept>

#include "face_alignment.hpp"
#include "files.hpp"
#include "one_by_one.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::one_by_one;

bool within(const FaceDetectResult::BoundingBox& box) {
  const auto share = [](float value) { return value >= 0 && value <= 1; };
  return share(box.x) && share(box.y) && share(box.x + box.width) && share(box.y + box.height);
}

class FaceDetectRecogImp : public FaceDetectRecog {
 public:
  FaceDetectRecogImp(const std::string& detect, const std::string& landmark,
                     const std::string& feature, bool need_preprocess)
      : detect_(FaceDetect::create(detect, need_preprocess)),
        landmark_(FaceLandmark::create(landmark, need_preprocess)),
        feature_(FaceFeature::create(feature, need_preprocess)) {}

  int getInputWidth() const override { return detect_->getInputWidth(); }
  int getInputHeight() const override { return detect_->getInputHeight(); }
  std::size_t get_input_batch() const override { return detect_->get_input_batch(); }
  float getThreshold() const override { return detect_->getThreshold(); }
  void setThreshold(float threshold) override { detect_->setThreshold(threshold); }

  FaceDetectRecogFixedResult run_fixed(const cv::Mat& image) override {
    FaceDetectRecogFixedResult result{image.cols, image.rows, {}, 0, {}};
    for (const auto& box : detect_->run(image).rects) {
      if (!within(box)) continue;
      const auto width = static_cast<float>(image.cols), height = static_cast<float>(image.rows);
      const cv::Rect face(static_cast<int>(box.x * width), static_cast<int>(box.y * height),
                          static_cast<int>(box.width * width),
                          static_cast<int>(box.height * height));
      const auto found = opendpu::tasks::around_face(face, image.size());
      if (found.face.empty()) continue;
      const auto feature = feature_->run_fixed(upright(image(found.part), found.face));
      result.rects.push_back(box);
      result.features.push_back(*feature.feature);
      result.feature_scale = feature.scale;
    }
    return result;
  }
  FaceDetectRecogFloatResult run(const cv::Mat& image) override {
    const auto fixed = run_fixed(image);
    FaceDetectRecogFloatResult result{fixed.width, fixed.height, fixed.rects, {}};
    for (const auto& elements : fixed.features) {
      auto& feature = result.features.emplace_back();
      for (std::size_t i = 0; i < feature.size(); ++i) {
        feature[i] = static_cast<float>(elements[i]) * fixed.feature_scale;
      }
    }
    return result;
  }
  std::vector<FaceDetectRecogFloatResult> run(const std::vector<cv::Mat>& images) override {
    return one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
  std::vector<FaceDetectRecogFixedResult> run_fixed(const std::vector<cv::Mat>& images) override {
    return one_by_one(images, [this](const cv::Mat& image) { return run_fixed(image); });
  }

 private:
  // The face in a part of an image, as the network for features takes it.
  cv::Mat upright(const cv::Mat& part, const cv::Rect& face) {
    const auto shares = landmark_->run(cv::Mat(part, face)).points;
    opendpu::tasks::FacePoints points;
    for (std::size_t i = 0; i < points.size(); ++i) {
      points[i] = {shares[i].first * static_cast<float>(face.width) + static_cast<float>(face.x),
                   shares[i].second * static_cast<float>(face.height) + static_cast<float>(face.y)};
    }
    cv::Mat aligned;
    cv::warpAffine(part, aligned, opendpu::tasks::alignment(points),
                   cv::Size(feature_->getInputWidth(), feature_->getInputHeight()));
    return aligned;
  }

  std::unique_ptr<FaceDetect> detect_;
  std::unique_ptr<FaceLandmark> landmark_;
  std::unique_ptr<FaceFeature> feature_;
};

// What stands behind "TYPE :" in a file.
std::string named(const std::string& path, const std::string& type) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto place = line.find(type);
    const auto colon = place == std::string::npos ? place : line.find(':', place);
    if (colon == std::string::npos) continue;
    const auto first = line.find_first_not_of(" \t\r", colon + 1);
    const auto last = line.find_last_not_of(" \t\r");
    if (first != std::string::npos) return line.substr(first, last - first + 1);
  }
  throw std::runtime_error(path + ": has no line \"" + type + " : NAME\" with a model's name");
}

}  // namespace

std::unique_ptr<FaceDetectRecog> FaceDetectRecog::create(const std::string& detect_model_name,
                                                         const std::string& landmark_model_name,
                                                         const std::string& feature_model_name,
                                                         bool need_preprocess) {
  return std::make_unique<FaceDetectRecogImp>(detect_model_name, landmark_model_name,
                                              feature_model_name, need_preprocess);
}

std::unique_ptr<FaceDetectRecog> FaceDetectRecog::create(const std::string& model_name,
                                                         bool need_preprocess) {
  const auto path = opendpu::tasks::find_model(model_name);
  const auto detect = named(path, "FACEDETECT"), landmark = named(path, "FACELANDMARK");
  return create(detect, landmark, named(path, "FACEFEATURE"), need_preprocess);
}

}  // namespace ai
}  // namespace vitis
