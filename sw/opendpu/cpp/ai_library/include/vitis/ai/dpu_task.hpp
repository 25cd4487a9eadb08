// SPDX-License-Identifier: Apache-2.0
// Tasks: a model's DPU subgraphs, run one by one, with images set as inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "UniLog/UniLog.hpp"
#include "vart/runner_ext.hpp"
#include "vart/zero_copy_helper.hpp"
#include "vitis/ai/library/tensor.hpp"
#include "xir/attrs/attrs.hpp"
#include "xir/graph/graph.hpp"

namespace vitis {
namespace ai {

class DpuTask {
 public:
  // A model's name or file. A name is looked up as NAME/NAME.xmodel in VAI_LIBRARY_MODELS_DIR, the
  // current folder, /usr/share/vitis_ai_library/models and /usr/share/vitis_ai_library/.models.
  // Throws std::runtime_error where there is none, or nothing in it runs on the DPU.
  static std::unique_ptr<DpuTask> create(const std::string& kernel_name);
  static std::unique_ptr<DpuTask> create(const std::string& kernel_name, xir::Attrs* attrs);

  virtual ~DpuTask() = default;
  DpuTask(const DpuTask&) = delete;
  DpuTask& operator=(const DpuTask&) = delete;

  // Runs a DPU subgraph, and waits; throws std::runtime_error where the job fails.
  virtual void run(std::size_t idx) = 0;
  // Runs the first one with an input in memory from XRT, quantized already: get_input_buffer_size()
  // bytes, in which it begins at get_input_offset(). Throws std::invalid_argument where there is
  // more than one object or input, or a whole graph to run.
  virtual void run_with_xrt_bo(const std::vector<vart::xrt_bo_t>& input_bos) = 0;

  // From now on images become (pixel - mean) * scale; both in the order B, G, R.
  virtual void setMeanScaleBGR(const std::vector<float>& mean, const std::vector<float>& scale) = 0;
  // Images of the input's size, 8 bits a channel in the order B, G, R, are written to an input; RGB
  // turns channels around. Throws std::invalid_argument for another size or type.
  virtual void setImageBGR(const cv::Mat& img) = 0;
  virtual void setImageBGR(const std::vector<cv::Mat>& imgs) = 0;
  virtual void setImageRGB(const cv::Mat& img, std::size_t ind = 0) = 0;
  virtual void setImageRGB(const std::vector<cv::Mat>& imgs, std::size_t ind = 0) = 0;
  // Elements as they are.
  virtual void setInputDataArray(const std::vector<std::int8_t> input, std::size_t ind) = 0;
  virtual void setInputDataArray(const std::vector<std::vector<std::int8_t>> input,
                                 std::size_t ind) = 0;

  virtual std::vector<float> getMean() = 0;
  virtual std::vector<float> getScale() = 0;
  virtual std::vector<library::InputTensor> getInputTensor(std::size_t idx) = 0;
  virtual std::vector<library::OutputTensor> getOutputTensor(std::size_t idx) = 0;
  virtual std::size_t get_num_of_kernels() const = 0;
  virtual std::size_t get_input_batch(std::size_t kernel_idx, std::size_t node_idx) const = 0;
  virtual const xir::Graph* get_graph() const = 0;
  virtual std::unique_ptr<xir::Attrs> get_attrs() const = 0;
  virtual int get_input_buffer_size() const = 0;
  virtual std::size_t get_input_offset() const = 0;
  virtual int get_input_fix_point() const = 0;

 protected:
  DpuTask() = default;
};

}  // namespace ai
}  // namespace vitis
