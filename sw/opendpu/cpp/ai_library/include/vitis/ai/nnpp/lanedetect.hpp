// SPDX-License-Identifier: Apache-2.0
// Lines on roads out of the output of VPGNet.
#pragma once

#include <cstddef>
#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/library/tensor.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

// Where a program names a folder, every image adds a line to files in it: the kind of each pixel of
// the output to datase.txt, rows and columns of the middles of lines to seedx.txt and seedy.txt.
extern std::string g_roadline_acc_outdir;

namespace vitis {
namespace ai {

struct RoadLineResult {
  // Of the network's input.
  int width;
  int height;
  struct Line {
    // 1: white and dotted, 2: white and solid, 3: yellow; -1 where a line has one pixel only.
    int type;
    // A point for every column of the input between the line's ends, in pixels.
    std::vector<cv::Point> points_cluster;
  };
  std::vector<Line> lines;
};

// The parameters are those of roadline_param: the road is seen from above to find which pixels
// belong together, so they say where the camera is.
class RoadLinePostProcess {
 public:
  // The tensors' memory must live as long. Throws std::runtime_error where the output and the
  // parameters do not fit.
  static std::unique_ptr<RoadLinePostProcess> create(
      const std::vector<library::InputTensor>& input_tensors,
      const std::vector<library::OutputTensor>& output_tensors,
      const proto::DpuModelParam& config);

  // What is in the output now; the sizes of images, one a sample, are not needed for this network.
  virtual std::vector<RoadLineResult> road_line_post_process(const std::vector<int>& inWidth,
                                                             const std::vector<int>& inHeight,
                                                             std::size_t batch_size) = 0;

  virtual ~RoadLinePostProcess() = default;
  RoadLinePostProcess(const RoadLinePostProcess&) = delete;
  RoadLinePostProcess& operator=(const RoadLinePostProcess&) = delete;

 protected:
  RoadLinePostProcess() = default;
};

}  // namespace ai
}  // namespace vitis
