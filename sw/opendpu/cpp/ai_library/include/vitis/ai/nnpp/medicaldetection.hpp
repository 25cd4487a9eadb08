// SPDX-License-Identifier: Apache-2.0
// Boxes out of the outputs of RefineDet, as trained for images of endoscopes.
#pragma once

#include <memory>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct MedicalDetectionResult {
  // Of the network's input.
  int width;
  int height;
  struct BoundingBox {
    int label;  // 0 is the background, and never here
    float score;
    // The top left corner and the size, as shares of the image's width and height; boxes may reach
    // beyond the image.
    float x;
    float y;
    float width;
    float height;
  };
  std::vector<BoundingBox> bboxes;  // by falling score
};

// The parameters are those of medical_refine_det_param, whose num_classes does not count the
// background.
class MedicalDetectionPostProcess {
 public:
  // The tensors' memory must live as long. Throws std::runtime_error where outputs, prior boxes and
  // classes do not fit.
  static std::unique_ptr<MedicalDetectionPostProcess> create(
      const std::vector<library::InputTensor>& input_tensors,
      const std::vector<library::OutputTensor>& output_tensors,
      const proto::DpuModelParam& config, int& real_batch_size);

  // What is in the outputs now: of a sample, or of the first real_batch_size.
  virtual MedicalDetectionResult medicaldetection_post_process(unsigned int idx) = 0;
  virtual std::vector<MedicalDetectionResult> medicaldetection_post_process() = 0;

  virtual ~MedicalDetectionPostProcess() = default;
  MedicalDetectionPostProcess(const MedicalDetectionPostProcess&) = delete;
  MedicalDetectionPostProcess& operator=(const MedicalDetectionPostProcess&) = delete;

 protected:
  MedicalDetectionPostProcess() = default;
};

}  // namespace ai
}  // namespace vitis
