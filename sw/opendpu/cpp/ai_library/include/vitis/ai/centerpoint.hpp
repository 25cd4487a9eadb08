// SPDX-License-Identifier: Apache-2.0
// Objects in the points of a radar or lidar, by CenterPoint.
#pragma once

#include <cstddef>
#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/nnpp/centerpoint.hpp"

namespace vitis {
namespace ai {

class CenterPoint {
 public:
  // The networks of pillars and of the scene; see ConfigurableDpuTask. Points count that are up to
  // 80 m ahead, 40 m to each side, and between -6 and 8 m high; the second network's input says into
  // how many cells these are parted. Throws std::runtime_error where the networks do not fit.
  static std::unique_ptr<CenterPoint> create(const std::string& model_name_0,
                                             const std::string& model_name_1);
  virtual ~CenterPoint() = default;
  CenterPoint(const CenterPoint&) = delete;
  CenterPoint& operator=(const CenterPoint&) = delete;

  // Of the first network: points a pillar, pillars.
  virtual int getInputWidth() const = 0;
  virtual int getInputHeight() const = 0;
  virtual std::size_t get_input_batch() const = 0;

  // Points: x, y, z and how much they reflect, one after the other.
  virtual std::vector<CenterPointResult> run(const std::vector<float>& input) = 0;
  virtual std::vector<std::vector<CenterPointResult>> run(
      const std::vector<std::vector<float>>& inputs) = 0;

 protected:
  CenterPoint() = default;
};

}  // namespace ai
}  // namespace vitis
