// SPDX-License-Identifier: Apache-2.0
// Faces in images with the features to know them again: FaceDetect, FaceLandmark and FaceFeature.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/facedetect.hpp"
#include "vitis/ai/facefeature.hpp"
#include "vitis/ai/facelandmark.hpp"
#include "vitis/ai/nnpp/facedetect.hpp"

namespace vitis {
namespace ai {

struct FaceDetectRecogFloatResult {
  using vector_t = std::array<float, 512>;
  // Of the image.
  int width;
  int height;
  std::vector<FaceDetectResult::BoundingBox> rects;
  std::vector<vector_t> features;  // of each of rects
};

struct FaceDetectRecogFixedResult {
  using vector_t = std::array<std::int8_t, 512>;
  // Of the image.
  int width;
  int height;
  std::vector<FaceDetectResult::BoundingBox> rects;
  float feature_scale;  // what elements are multiplied by to become real values
  std::vector<vector_t> features;  // of each of rects
};

class FaceDetectRecog {
 public:
  // Models as of ConfigurableDpuTask; or the name of a text file that has them in lines
  // "FACEDETECT : NAME", "FACELANDMARK : NAME" and "FACEFEATURE : NAME".
  static std::unique_ptr<FaceDetectRecog> create(const std::string& detect_model_name,
                                                 const std::string& landmark_model_name,
                                                 const std::string& feature_model_name,
                                                 bool need_preprocess = true);
  static std::unique_ptr<FaceDetectRecog> create(const std::string& model_name,
                                                 bool need_preprocess = true);

  virtual ~FaceDetectRecog() = default;
  FaceDetectRecog(const FaceDetectRecog&) = delete;
  FaceDetectRecog& operator=(const FaceDetectRecog&) = delete;

  // Of the detector.
  virtual int getInputWidth() const = 0;
  virtual int getInputHeight() const = 0;
  virtual std::size_t get_input_batch() const = 0;
  virtual float getThreshold() const = 0;
  virtual void setThreshold(float threshold) = 0;

  // Images of any size, 8 bits a channel, in the order B, G, R. Faces that are not within the image
  // are left out.
  virtual FaceDetectRecogFloatResult run(const cv::Mat& image) = 0;
  virtual FaceDetectRecogFixedResult run_fixed(const cv::Mat& image) = 0;
  virtual std::vector<FaceDetectRecogFloatResult> run(const std::vector<cv::Mat>& images) = 0;
  virtual std::vector<FaceDetectRecogFixedResult> run_fixed(const std::vector<cv::Mat>& images) = 0;

 protected:
  FaceDetectRecog() = default;
};

}  // namespace ai
}  // namespace vitis
