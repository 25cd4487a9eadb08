// SPDX-License-Identifier: Apache-2.0
// Tasks with a .prototxt.
#include "vitis/ai/configurable_dpu_task.hpp"

#include "dpu_task.hpp"
#include "files.hpp"

namespace vitis {
namespace ai {
namespace {

class Configured : public ConfigurableDpuTask {
 public:
  Configured(const std::string& name, xir::Attrs* attrs, bool need_preprocess)
      : config_(opendpu::tasks::read_config(name)),
        task_(opendpu::tasks::make_task(name, attrs, config_.use_graph_runner())) {
    if (!need_preprocess) return;
    if (config_.kernel_size() == 0) {
      throw std::runtime_error("the .prototxt of " + name + " has no kernel with mean and scale");
    }
    const auto& kernel = config_.kernel(0);
    task_->setMeanScaleBGR({kernel.mean().begin(), kernel.mean().end()},
                           {kernel.scale().begin(), kernel.scale().end()});
  }

  void setInputImageBGR(const cv::Mat& image) override { task_->setImageBGR(image); }
  void setInputImageBGR(const std::vector<cv::Mat>& images) override { task_->setImageBGR(images); }
  void setInputImageRGB(const cv::Mat& image, std::size_t ind) override {
    task_->setImageRGB(image, ind);
  }
  void setInputImageRGB(const std::vector<cv::Mat>& images, std::size_t ind) override {
    task_->setImageRGB(images, ind);
  }
  void setInputDataArray(const std::vector<std::int8_t>& array, std::size_t ind) override {
    task_->setInputDataArray(array, ind);
  }
  void setInputDataArray(const std::vector<std::vector<std::int8_t>>& array,
                         std::size_t ind) override {
    task_->setInputDataArray(array, ind);
  }
  void run(int task_index) override { task_->run(static_cast<std::size_t>(task_index)); }
  void run_with_xrt_bo(const std::vector<vart::xrt_bo_t>& input_bos) override {
    task_->run_with_xrt_bo(input_bos);
  }
  const proto::DpuModelParam& getConfig() const override { return config_; }
  std::vector<std::vector<library::InputTensor>> getInputTensor() const override {
    std::vector<std::vector<library::InputTensor>> made;
    for (std::size_t i = 0; i < task_->get_num_of_kernels(); ++i) {
      made.push_back(task_->getInputTensor(i));
    }
    return made;
  }
  std::vector<std::vector<library::OutputTensor>> getOutputTensor() const override {
    std::vector<std::vector<library::OutputTensor>> made;
    for (std::size_t i = 0; i < task_->get_num_of_kernels(); ++i) {
      made.push_back(task_->getOutputTensor(i));
    }
    return made;
  }
  int getInputWidth() const override { return static_cast<int>(input().width); }
  int getInputHeight() const override { return static_cast<int>(input().height); }
  std::size_t get_input_batch() const override { return input().batch; }
  const xir::Graph* get_graph() const override { return task_->get_graph(); }
  int get_input_buffer_size() const override { return task_->get_input_buffer_size(); }
  std::size_t get_input_offset() const override { return task_->get_input_offset(); }
  int get_input_fix_point() const override { return task_->get_input_fix_point(); }

 private:
  library::InputTensor input() const { return task_->getInputTensor(0).at(0); }

  proto::DpuModelParam config_;
  std::unique_ptr<DpuTask> task_;
};

}  // namespace

std::unique_ptr<ConfigurableDpuTask> ConfigurableDpuTask::create(const std::string& model_name,
                                                                 bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<ConfigurableDpuTask> ConfigurableDpuTask::create(const std::string& model_name,
                                                                 xir::Attrs* attrs,
                                                                 bool need_preprocess) {
  return std::make_unique<Configured>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
