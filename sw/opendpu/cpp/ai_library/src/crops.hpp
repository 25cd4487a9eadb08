// SPDX-License-Identifier: Apache-2.0
// How classifiers want images cropped and resized.
#pragma once

#include <opencv2/core.hpp>

#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace opendpu {
namespace tasks {

// The image as preprocess_type wants it; width and height are the input's.
cv::Mat cropped(const cv::Mat& image, const vitis::ai::proto::ClassificationParam& param,
                int width, int height);

// Whether the input is in the order R, G, B.
bool is_rgb(const vitis::ai::proto::ClassificationParam& param);

}  // namespace tasks
}  // namespace opendpu
