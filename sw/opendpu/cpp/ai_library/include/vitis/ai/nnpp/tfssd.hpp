// SPDX-License-Identifier: Apache-2.0
// Boxes out of the outputs of an SSD of TensorFlow's object detection API.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

struct TFSSDResult {
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
  // Of the network's input.
  int width;
  int height;
  std::vector<BoundingBox> bboxes;
};

// The outputs and feature maps are those of tfssd_param; anchors, thresholds and classes those of the
// pipeline configuration MODEL_NAME_officialcfg.prototxt in a folder, with an ssd_anchor_generator.
class TFSSDPostProcess {
 public:
  // The tensors' memory must live as long. Throws std::runtime_error where the configuration cannot be
  // read, or outputs, anchors and classes do not fit.
  static std::unique_ptr<TFSSDPostProcess> create(
      const std::string& model_name, const std::vector<library::InputTensor>& input_tensors,
      const std::vector<library::OutputTensor>& output_tensors, const proto::DpuModelParam& config,
      const std::string& dirname, int& real_batch_size);

  // What is in the outputs now: of one sample, or of as many as real_batch_size says at the time.
  virtual TFSSDResult ssd_post_process(unsigned int idx) = 0;
  virtual std::vector<TFSSDResult> ssd_post_process() = 0;

  virtual ~TFSSDPostProcess() = default;
  TFSSDPostProcess(const TFSSDPostProcess&) = delete;
  TFSSDPostProcess& operator=(const TFSSDPostProcess&) = delete;

 protected:
  TFSSDPostProcess() = default;
};

}  // namespace ai
}  // namespace vitis
