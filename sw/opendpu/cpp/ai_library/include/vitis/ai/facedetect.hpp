// SPDX-License-Identifier: Apache-2.0
// Faces in images, by DenseBox.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"
#include "vitis/ai/nnpp/facedetect.hpp"

namespace vitis {
namespace ai {

class FaceDetect : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask.
  static std::unique_ptr<FaceDetect> create(const std::string& model_name,
                                            bool need_preprocess = true);
  static std::unique_ptr<FaceDetect> create(const std::string& model_name, xir::Attrs* attrs,
                                            bool need_preprocess = true);

  // What scores must be above; at first det_threshold of the .prototxt.
  virtual float getThreshold() const = 0;
  virtual void setThreshold(float threshold) = 0;

  // Images of any size, 8 bits a channel, in the order B, G, R.
  virtual FaceDetectResult run(const cv::Mat& image) = 0;
  virtual std::vector<FaceDetectResult> run(const std::vector<cv::Mat>& images) = 0;
  // Inputs as the network takes them, see DpuTask::run_with_xrt_bo; any number.
  virtual std::vector<FaceDetectResult> run(const std::vector<vart::xrt_bo_t>& input_bos) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

}  // namespace ai
}  // namespace vitis
