// SPDX-License-Identifier: Apache-2.0
// Runners: execute subgraphs.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "vart/tensor_buffer.hpp"

namespace xir {
class Attrs;
class Subgraph;
class Tensor;
}  // namespace xir

namespace vart {

template <typename InputType, typename OutputType = InputType>
class BaseRunner {
 public:
  virtual ~BaseRunner() = default;
  virtual std::pair<std::uint32_t, int> execute_async(InputType input, OutputType output) = 0;
  virtual int wait(int jobid, int timeout = -1) = 0;
};

class Runner : public BaseRunner<const std::vector<TensorBuffer*>&> {
 public:
  // A runner for a compiled subgraph. Modes: "run" and "" for the device that the environment
  // chooses (OPENDPU_DEVICE), "sim" for the functional simulator, "ref" for the subgraph's ops.
  // Throws std::runtime_error, with the reason, where the subgraph cannot be run.
  static std::unique_ptr<Runner> create_runner(const xir::Subgraph* subgraph,
                                               const std::string& mode = std::string(""));
  // The mode is attrs["mode"], if there is one.
  static std::unique_ptr<Runner> create_runner_with_attrs(const xir::Subgraph* subgraph,
                                                          xir::Attrs* attrs);

  enum class TensorFormat { NHWC = 0, NCHW };

  // Starts a job; returns its number and 0. Inputs are copied before it returns. Buffers are found
  // by the names of their tensors; where these are others, they are in the order of the tensors.
  // With outputs that the runner owns (RunnerExt::get_outputs) it returns when they are there, as
  // AMD's runners do, and throws where the job fails; XLNX_ENABLE_ASYNC_RUNNER=0 makes it so always.
  std::pair<std::uint32_t, int> execute_async(const std::vector<TensorBuffer*>& input,
                                              const std::vector<TensorBuffer*>& output) override = 0;
  // Waits for a job, or for the one that waits longest where the number is negative; returns 0.
  // What makes a job fail, and a timeout (milliseconds; none if not positive), is told on stderr,
  // and the result is not 0.
  int wait(int jobid, int timeout = -1) override = 0;
  virtual TensorFormat get_tensor_format() { return TensorFormat::NHWC; }
  // By name.
  virtual std::vector<const xir::Tensor*> get_input_tensors() = 0;
  virtual std::vector<const xir::Tensor*> get_output_tensors() = 0;
};

}  // namespace vart
