// SPDX-License-Identifier: Apache-2.0
// Cars, cyclists and pedestrians in a lidar's points, by PointPillars.
#pragma once

#include <cstddef>
#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/library/tensor.hpp"

namespace vitis {
namespace ai {

using V1F = std::vector<float>;
using V2F = std::vector<V1F>;
using V1I = std::vector<int>;
using V2I = std::vector<V1I>;

// What do_pointpillar_display draws: a photo, the view from above, or both.
enum e_flag { E_RGB = 0x01, E_BEV = 0x02 };

// Calibration as KITTI has it: matrices of 4 x 4, p2rect is P2 times rect.
struct DISPLAY_PARAM {
  V2F P2;
  V2F rect;
  V2F Trv2c;
  V2F p2rect;
};

// Objects as KITTI annotates them; an element of each for every object.
struct ANNORET {
  std::vector<std::string> name;
  V1I label;
  V1F truncated;
  V1I occluded;
  V1F alpha;
  V2I bbox;  // left, top, right, bottom in the photo
  V2F dimensions;
  V2F location;
  V1F rotation_y;
  V1F score;
  V2F box3d_camera;
  V2F box3d_lidar;

  void clear() { *this = ANNORET(); }
};

// By falling score.
struct PPResult {
  V2F final_box_preds;  // x, y, z of the bottom's centre, width, length, height; angle around z
  V1F final_scores;
  V1I label_preds;
};

struct PointPillarsResult {
  // Of the second network's input.
  int width = 0;
  int height = 0;
  PPResult ppresult;
};

class PointPillars {
 public:
  // The networks of pillars and of the scene. Beside the first lies NAME_officialcfg.prototxt, a
  // configuration of SECOND. Throws std::runtime_error where it lacks what is needed.
  static std::unique_ptr<PointPillars> create(const std::string& model_name,
                                              const std::string& model_name1);
  virtual ~PointPillars() = default;
  PointPillars(const PointPillars&) = delete;
  PointPillars& operator=(const PointPillars&) = delete;

  // Points: x, y, z and how much they reflect, one after the other; `len` counts floats.
  virtual PointPillarsResult run(const V1F& v1f) = 0;
  virtual std::vector<PointPillarsResult> run(const V2F& v2f) = 0;
  virtual PointPillarsResult run(const float* points, int len) = 0;
  virtual std::vector<PointPillarsResult> run(const std::vector<const float*>& vpoints,
                                              const std::vector<int>& vlen) = 0;
  virtual std::size_t get_input_batch() const = 0;

  // Draws what was found into a photo of `width` x `height` and a view of bev_preprocess, as `flag`
  // says, and adds to `annoret`, unless only the photo is asked for, the objects that are in it.
  virtual void do_pointpillar_display(PointPillarsResult& res, int flag, DISPLAY_PARAM& dispp,
                                      cv::Mat& rgb_map, cv::Mat& bev_map, int width, int height,
                                      ANNORET& annoret) = 0;

 protected:
  PointPillars() = default;
};

// Points from above, 512 x 1024, 40/512 m a pixel: reflection, height, density.
cv::Mat bev_preprocess(const V1F& PointCloud);

}  // namespace ai
}  // namespace vitis
