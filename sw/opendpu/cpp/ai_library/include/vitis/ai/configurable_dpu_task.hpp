// SPDX-License-Identifier: Apache-2.0
// Tasks with a .prototxt beside the model that says how images are normalized.
#pragma once

#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "vitis/ai/dpu_task.hpp"
#include "vitis/ai/proto/dpu_model_param.pb.h"

namespace vitis {
namespace ai {

class ConfigurableDpuTask {
 public:
  // A model's name or file, see DpuTask; NAME.prototxt must lie beside it. Without preprocessing,
  // pixels are written as they are. Throws std::runtime_error where a file is missing or wrong.
  static std::unique_ptr<ConfigurableDpuTask> create(const std::string& model_name,
                                                     bool need_preprocess = true);
  static std::unique_ptr<ConfigurableDpuTask> create(const std::string& model_name,
                                                     xir::Attrs* attrs,
                                                     bool need_preprocess = true);

  virtual ~ConfigurableDpuTask() = default;
  ConfigurableDpuTask(const ConfigurableDpuTask&) = delete;

  virtual void setInputImageBGR(const cv::Mat& image) = 0;
  virtual void setInputImageBGR(const std::vector<cv::Mat>& images) = 0;
  virtual void setInputImageRGB(const cv::Mat& image, std::size_t ind = 0) = 0;
  virtual void setInputImageRGB(const std::vector<cv::Mat>& images, std::size_t ind = 0) = 0;
  virtual void setInputDataArray(const std::vector<std::int8_t>& array, std::size_t ind = 0) = 0;
  virtual void setInputDataArray(const std::vector<std::vector<std::int8_t>>& array,
                                 std::size_t ind = 0) = 0;
  virtual void run(int task_index) = 0;
  virtual void run_with_xrt_bo(const std::vector<vart::xrt_bo_t>& input_bos) = 0;
  virtual const proto::DpuModelParam& getConfig() const = 0;
  virtual std::vector<std::vector<library::InputTensor>> getInputTensor() const = 0;
  virtual std::vector<std::vector<library::OutputTensor>> getOutputTensor() const = 0;
  virtual int getInputWidth() const = 0;
  virtual int getInputHeight() const = 0;
  virtual std::size_t get_input_batch() const = 0;
  virtual const xir::Graph* get_graph() const = 0;
  virtual int get_input_buffer_size() const = 0;
  virtual std::size_t get_input_offset() const = 0;
  virtual int get_input_fix_point() const = 0;

 protected:
  ConfigurableDpuTask() = default;
};

// A class with an interface of its own that runs such a task.
template <typename Interface>
class TConfigurableDpuTask : public Interface {
 public:
  explicit TConfigurableDpuTask(const std::string& model_name, bool need_preprocess = true)
      : configurable_dpu_task_(ConfigurableDpuTask::create(model_name, need_preprocess)) {}
  TConfigurableDpuTask(const std::string& model_name, xir::Attrs* attrs,
                       bool need_preprocess = true)
      : configurable_dpu_task_(ConfigurableDpuTask::create(model_name, attrs, need_preprocess)) {}
  TConfigurableDpuTask(const TConfigurableDpuTask&) = delete;
  int getInputWidth() const override { return configurable_dpu_task_->getInputWidth(); }
  int getInputHeight() const override { return configurable_dpu_task_->getInputHeight(); }
  std::size_t get_input_batch() const override {
    return configurable_dpu_task_->get_input_batch();
  }

 protected:
  std::unique_ptr<ConfigurableDpuTask> configurable_dpu_task_;
};

// What the library's classes derive from.
class ConfigurableDpuTaskBase {
 public:
  explicit ConfigurableDpuTaskBase(const std::string& model_name, bool need_preprocess = true)
      : configurable_dpu_task_(ConfigurableDpuTask::create(model_name, need_preprocess)) {}
  ConfigurableDpuTaskBase(const std::string& model_name, xir::Attrs* attrs,
                          bool need_preprocess = true)
      : configurable_dpu_task_(ConfigurableDpuTask::create(model_name, attrs, need_preprocess)) {}
  ConfigurableDpuTaskBase(const ConfigurableDpuTaskBase&) = delete;
  virtual ~ConfigurableDpuTaskBase() = default;

  int getInputWidth() const { return configurable_dpu_task_->getInputWidth(); }
  int getInputHeight() const { return configurable_dpu_task_->getInputHeight(); }
  int get_input_width() const { return getInputWidth(); }
  int get_input_height() const { return getInputHeight(); }
  // How many images run takes at once; more are run one after the other.
  std::size_t get_input_batch() const { return configurable_dpu_task_->get_input_batch(); }
  int get_input_buffer_size() const { return configurable_dpu_task_->get_input_buffer_size(); }
  std::size_t get_input_offset() const { return configurable_dpu_task_->get_input_offset(); }
  int get_input_fix_point() const { return configurable_dpu_task_->get_input_fix_point(); }

 protected:
  std::unique_ptr<ConfigurableDpuTask> configurable_dpu_task_;
};

}  // namespace ai
}  // namespace vitis
