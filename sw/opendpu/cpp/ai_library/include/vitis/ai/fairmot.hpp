// SPDX-License-Identifier: Apache-2.0
// Persons in images, and features that tell them apart, by FairMOT.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/configurable_dpu_task.hpp"

namespace vitis {
namespace ai {

// x, y (of the top left corner), width and height are shares of the image's.
struct BoundingBox {
  float x;
  float y;
  float width;
  float height;
  int label;  // always 1
  float score;
};

struct FairMotResult {
  // Of the network's input.
  int width;
  int height;
  std::vector<cv::Mat> feats;  // of each box: CV_32FC1, one row, of length 1
  std::vector<BoundingBox> bboxes;  // by falling score
};

class FairMot : public ConfigurableDpuTaskBase {
 public:
  // See ConfigurableDpuTask.
  static std::unique_ptr<FairMot> create(const std::string& model_name,
                                         bool need_preprocess = true);
  static std::unique_ptr<FairMot> create(const std::string& model_name, xir::Attrs* attrs,
                                         bool need_preprocess = true);

  // Images of any size, 8 bits a channel, in the order B, G, R.
  virtual FairMotResult run(const cv::Mat& image) = 0;
  virtual std::vector<FairMotResult> run(const std::vector<cv::Mat>& images) = 0;

 protected:
  using ConfigurableDpuTaskBase::ConfigurableDpuTaskBase;
};

}  // namespace ai
}  // namespace vitis
