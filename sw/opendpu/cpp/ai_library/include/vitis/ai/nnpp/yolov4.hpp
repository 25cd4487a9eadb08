// SPDX-License-Identifier: Apache-2.0
// YOLOv4 has the results and the postprocessing of YOLOv3.
#pragma once

#include "vitis/ai/nnpp/yolov3.hpp"

namespace vitis {
namespace ai {

using YOLOv4Result = YOLOv3Result;

}  // namespace ai
}  // namespace vitis
