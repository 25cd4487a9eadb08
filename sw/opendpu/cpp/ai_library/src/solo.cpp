// SPDX-License-Identifier: Apache-2.0
// Solo: images in, objects with their outlines out. Inputs beside the image tell the network where
// it looks.
#include "vitis/ai/solo.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "one_by_one.hpp"
#include "outputs.hpp"

namespace vitis {
namespace ai {
namespace {

using library::InputTensor;
using library::OutputTensor;

// To the nearest and clamped, whatever XLNX_ENABLE_ROUND_SETINPUT says.
std::int8_t nearest(float value) {
  return static_cast<std::int8_t>(std::clamp(std::round(value), -128.f, 127.f));
}

template <typename Tensor, typename Names>
std::vector<int> numbers_of(const std::vector<Tensor>& tensors, const Names& names) {
  std::vector<int> made;
  for (const auto& name : names) {
    const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& tensor) {
      return tensor.name.find(name) != std::string::npos;
    });
    if (found == tensors.end()) {
      throw std::runtime_error("solo_param has '" + name + "', which is in no tensor's name");
    }
    made.push_back(static_cast<int>(found - tensors.begin()));
  }
  return made;
}

class SoloImp : public Solo {
 public:
  SoloImp(const std::string& model_name, bool need_preprocess)
      : Solo(model_name, need_preprocess), normalized_(need_preprocess) {
    const auto& param = configurable_dpu_task_->getConfig().solo_param();
    inputs_ = numbers_of(tensors(), param.input_tensor_name());
    outputs_ = numbers_of(configurable_dpu_task_->getOutputTensor().at(0),
                          param.output_tensor_name());
    if (inputs_.empty()) throw std::runtime_error("solo_param must have an input_tensor_name");
  }

  SoloResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    for (std::size_t i = 1; i < inputs_.size(); ++i) fill_coordinates(inputs_[i]);
    fill(image);
    task.run(0);
    return solo_post_process(tensors(), task.getOutputTensor().at(0), task.getConfig(),
                             {image.cols, image.rows}, outputs_, 0);
  }
  std::vector<SoloResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }

 private:
  std::vector<InputTensor> tensors() const {
    return configurable_dpu_task_->getInputTensor().at(0);
  }

  // From -1 at the left and the top to 1.
  void fill_coordinates(int number) {
    const auto tensor = tensors()[static_cast<std::size_t>(number)];
    if (tensor.channel != 2 || tensor.height < 2 || tensor.width < 2) {
      throw std::runtime_error("input " + tensor.name + " must have two coordinates a cell");
    }
    const float scale = library::tensor_scale(tensor);
    const auto at = [scale](std::size_t i, std::size_t cells) {
      return nearest((2 * static_cast<float>(i) / static_cast<float>(cells - 1) - 1) * scale);
    };
    auto* element = static_cast<std::int8_t*>(tensor.get_data(0));
    for (std::size_t row = 0; row < tensor.height; ++row) {
      for (std::size_t column = 0; column < tensor.width; ++column) {
        *element++ = at(column, tensor.width);
        *element++ = at(row, tensor.height);
      }
    }
  }

  void fill(const cv::Mat& image) {
    auto& task = *configurable_dpu_task_;
    const auto tensor = tensors()[static_cast<std::size_t>(inputs_[0])];
    const auto fitted = opendpu::tasks::resized(image, static_cast<int>(tensor.width),
                                                static_cast<int>(tensor.height));
    if (!normalized_) return task.setInputImageRGB(fitted, static_cast<std::size_t>(inputs_[0]));
    const auto& kernel = task.getConfig().kernel(0);
    if (image.type() != CV_8UC3 || tensor.channel != 3 || kernel.mean_size() < 3 ||
        kernel.scale_size() < 3) {
      throw std::invalid_argument("Solo takes images, means and scales of three channels of 8 bits");
    }
    const float step = library::tensor_scale(tensor);
    auto* element = static_cast<std::int8_t*>(tensor.get_data(0));
    for (int row = 0; row < fitted.rows; ++row) {
      for (int column = 0; column < fitted.cols; ++column) {
        const auto& pixel = fitted.at<cv::Vec3b>(row, column);
        for (int c = 2; c >= 0; --c) {
          *element++ = nearest((pixel[c] - kernel.mean(c)) * kernel.scale(c) * step);
        }
      }
    }
  }

  bool normalized_;
  std::vector<int> inputs_, outputs_;
};

}  // namespace

std::unique_ptr<Solo> Solo::create(const std::string& model_name, bool need_preprocess) {
  return std::make_unique<SoloImp>(model_name, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
