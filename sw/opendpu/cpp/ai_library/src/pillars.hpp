// SPDX-License-Identifier: Apache-2.0
// What PointPillars does around its networks: points in pillars, anchors, boxes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "outputs.hpp"
#include "scatter.hpp"
#include "vitis/ai/pointpillars.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace opendpu {
namespace tasks {

// The ground in cells. Throws std::runtime_error where the configuration does not say enough.
struct PillarGrid {
  explicit PillarGrid(const vitis::ai::proto::TrainEvalPipelineConfig& config);

  std::array<float, 3> start, length, cell;  // metres
  std::array<int, 3> size;                   // cells
  std::size_t most_points, most_pillars;
};

// Puts points into pillars, those that come first, as elements of the first network's input; it has
// a row for each pillar and a column for each of its points.
std::vector<Pillar> fill_pillars(const PillarGrid& grid, const float* points, std::size_t number,
                                 const InputTensor& input);

// x, y, z, width, length, height, angle.
using Box = std::array<float, 7>;

// Boxes out of the second network's outputs, which say for each anchor how the box differs.
class PillarBoxes {
 public:
  // Throws std::runtime_error where outputs and configuration do not fit.
  PillarBoxes(const PillarGrid& grid, const vitis::ai::proto::Second& config,
              const std::vector<OutputTensor>& outputs);

  vitis::ai::PPResult found(const std::vector<Pillar>& pillars,
                            const std::vector<OutputTensor>& outputs) const;

 private:
  struct Corners {
    int left, top, right, bottom;
  };
  struct Candidate {
    float score;  // before the sigmoid
    int label;
    bool turned;
    Box box;
  };

  void add_anchors(const PillarGrid& grid, const vitis::ai::proto::Second& config);
  std::vector<bool> seen(const std::vector<Pillar>& pillars) const;
  std::vector<Candidate> remaining(std::vector<Candidate> all) const;

  int rows_, columns_, classes_;
  std::vector<Box> anchors_;
  std::vector<Corners> covered_;  // cells of each anchor
  float least_score_, most_overlap_;
  std::size_t most_candidates_, most_boxes_;
};

}  // namespace tasks
}  // namespace opendpu
