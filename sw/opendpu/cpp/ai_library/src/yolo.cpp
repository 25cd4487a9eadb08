// SPDX-License-Identifier: Apache-2.0
// YOLOv2, YOLOv3, YOLOv4 and YOLOv7: images in, boxes out.
#include <cmath>

#include "letterbox.hpp"
#include "one_by_one.hpp"
#include "outputs.hpp"
#include "with_buffers.hpp"
#include "vitis/ai/yolov2.hpp"
#include "vitis/ai/yolov3.hpp"
#include "vitis/ai/yolov4.hpp"
#include "vitis/ai/yolov7.hpp"

namespace vitis {
namespace ai {
namespace {

using proto::YoloV3Param;

// Values of pixels beside a letterboxed image.
constexpr int kGrey = 128, kGreyOfV5 = 114;

class YOLOv2Imp : public YOLOv2 {
 public:
  using YOLOv2::YOLOv2;

  YOLOv2Result run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageRGB(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    return yolov2_post_process(task.getInputTensor()[0], task.getOutputTensor()[0],
                               task.getConfig())
        .front();
  }
  std::vector<YOLOv2Result> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
};

// YOLOv3 and YOLOv4.
template <typename Base>
class YOLOv3Imp : public opendpu::tasks::WithBuffers<Base, YOLOv3Result> {
 public:
  using opendpu::tasks::WithBuffers<Base, YOLOv3Result>::WithBuffers;

  YOLOv3Result run(const cv::Mat& image) override {
    set(image);
    this->configurable_dpu_task_->run(0);
    return found(image.cols, image.rows);
  }

 protected:
  YOLOv3Result found() override { return found(this->getInputWidth(), this->getInputHeight()); }

 private:
  YOLOv3Result found(int width, int height) {
    auto& task = *this->configurable_dpu_task_;
    return yolov3_post_process(task.getInputTensor()[0], task.getOutputTensor()[0],
                               task.getConfig(), width, height);
  }

  void set(const cv::Mat& image) {
    auto& task = *this->configurable_dpu_task_;
    const auto& config = task.getConfig();
    const auto type = config.yolo_v3_param().type();
    const bool late = type == YoloV3Param::YOLOV4_CSP || type == YoloV3Param::YOLOV5;
    const int width = this->getInputWidth(), height = this->getInputHeight();
    if (!config.yolo_v3_param().test_map()) {
      task.setInputImageRGB(opendpu::tasks::resized(image, width, height));
    } else if (config.is_tf() || late) {
      task.setInputImageRGB(
          opendpu::tasks::letterboxed(image, width, height, late ? kGreyOfV5 : kGrey));
    } else {
      const float scale = std::exp2f(static_cast<float>(task.get_input_fix_point()));
      task.setInputDataArray(
          opendpu::tasks::darknet_letterboxed(image, width, height, scale));
    }
  }
};

class YOLOv7Imp : public YOLOv7 {
 public:
  using YOLOv7::YOLOv7;

  YOLOv7Result run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageRGB(
        opendpu::tasks::letterboxed(image, getInputWidth(), getInputHeight(), kGreyOfV5));
    task.run(0);
    return yolov7_post_process(task.getInputTensor()[0], task.getOutputTensor()[0],
                               task.getConfig(), {image.cols}, {image.rows})
        .front();
  }
  std::vector<YOLOv7Result> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }
};

}  // namespace

std::unique_ptr<YOLOv2> YOLOv2::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<YOLOv2> YOLOv2::create(const std::string& model_name, xir::Attrs* attrs,
                                       bool need_preprocess) {
  return std::make_unique<YOLOv2Imp>(model_name, attrs, need_preprocess);
}

std::unique_ptr<YOLOv3> YOLOv3::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<YOLOv3> YOLOv3::create(const std::string& model_name, xir::Attrs* attrs,
                                       bool need_preprocess) {
  return std::make_unique<YOLOv3Imp<YOLOv3>>(model_name, attrs, need_preprocess);
}

std::unique_ptr<YOLOv4> YOLOv4::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<YOLOv4> YOLOv4::create(const std::string& model_name, xir::Attrs* attrs,
                                       bool need_preprocess) {
  return std::make_unique<YOLOv3Imp<YOLOv4>>(model_name, attrs, need_preprocess);
}

std::unique_ptr<YOLOv7> YOLOv7::create(const std::string& model_name, bool need_preprocess) {
  return create(model_name, nullptr, need_preprocess);
}

std::unique_ptr<YOLOv7> YOLOv7::create(const std::string& model_name, xir::Attrs* attrs,
                                       bool need_preprocess) {
  return std::make_unique<YOLOv7Imp>(model_name, attrs, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
