// SPDX-License-Identifier: Apache-2.0
// A model's files by its name.
#pragma once

#include <string>

#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace opendpu {
namespace tasks {

// The .xmodel of a name or path; throws std::runtime_error, with the places that were tried.
std::string find_model(const std::string& name);
// What the .prototxt beside it says; throws std::runtime_error, with the line.
vitis::ai::proto::DpuModelParam read_config(const std::string& name);
// NAME_officialcfg.prototxt of a name or path, in a folder: a file of TensorFlow's object detection
// API or of SECOND, of which much does not concern us.
vitis::ai::proto::TrainEvalPipelineConfig read_pipeline(const std::string& folder,
                                                        const std::string& name);

}  // namespace tasks
}  // namespace opendpu
