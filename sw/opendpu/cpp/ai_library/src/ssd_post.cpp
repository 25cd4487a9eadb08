// SPDX-License-Identifier: Apache-2.0
// Boxes out of the outputs of SSD.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "detections.hpp"
#include "outputs.hpp"
#include "vitis/ai/nnpp/ssd.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::InputTensor;
using opendpu::tasks::OutputTensor;
using opendpu::tasks::Prior;
using proto::SSDParam;

class Post : public SSDPostProcess {
 public:
  Post(const std::vector<InputTensor>& inputs, const std::vector<OutputTensor>& outputs,
       const proto::DpuModelParam& config)
      : param_(config.ssd_param()),
        is_tf_(config.is_tf()),
        width_(static_cast<int>(inputs.at(0).width)),
        height_(static_cast<int>(inputs.at(0).height)) {
    if (param_.is_mlperf()) {
      throw std::runtime_error("ssd_param has is_mlperf, which is not supported");
    }
    priors_ = opendpu::tasks::prior_boxes(param_.prior_box_param(), {is_tf_}, width_, height_);
    find(outputs);
    opendpu::tasks::check_sizes(priors_.size(), param_.num_classes(), 4,
                                opendpu::tasks::elements(boxes_),
                                opendpu::tasks::elements(scores_));
  }

  std::vector<SSDResult> ssd_post_process(std::size_t batch_size) override {
    std::vector<SSDResult> results;
    for (std::size_t sample = 0; sample < batch_size; ++sample) results.push_back(of(sample));
    return results;
  }

 private:
  // By output_info or bbox_layer_index; without both, by their names or sizes.
  void find(const std::vector<OutputTensor>& outputs) {
    if (param_.output_info_size() > 0) {
      std::vector<SSDParam::OutputInfo> infos(param_.output_info().begin(),
                                              param_.output_info().end());
      std::stable_sort(infos.begin(), infos.end(),
                       [](const auto& a, const auto& b) { return a.order() < b.order(); });
      for (const auto& info : infos) {
        (info.type() == SSDParam::OutputInfo::BBOX ? boxes_ : scores_)
            .push_back(opendpu::tasks::output_named(outputs, info.name()));
      }
      return;
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const auto& indices = param_.bbox_layer_index();
      const bool box = indices.empty()
                           ? is_boxes(outputs, outputs[i])
                           : std::count(indices.begin(), indices.end(), static_cast<int>(i)) > 0;
      (box ? boxes_ : scores_).push_back(outputs[i]);
    }
  }

  bool is_boxes(const std::vector<OutputTensor>& outputs, const OutputTensor& output) const {
    if (output.name.find("loc") != std::string::npos) return true;
    if (output.name.find("conf") != std::string::npos) return false;
    const auto box = [&](const OutputTensor& tensor) {
      return opendpu::tasks::elements(tensor) == 4 * priors_.size();
    };
    const auto first = std::find_if(outputs.begin(), outputs.end(), box);
    return first != outputs.end() && &*first == &output;
  }

  SSDResult of(std::size_t sample) const {
    const auto codes = opendpu::tasks::values(boxes_, sample);
    auto scores = opendpu::tasks::values(scores_, sample);
    const auto classes = static_cast<std::size_t>(param_.num_classes());
    std::vector<opendpu::tasks::Box> boxes;
    boxes.reserve(priors_.size());
    for (std::size_t i = 0; i < priors_.size(); ++i) {
      boxes.push_back(opendpu::tasks::clipped(
          opendpu::tasks::decoded(&codes[4 * i], priors_[i], is_tf_)));
      opendpu::tasks::softmax(&scores[i * classes], classes);
    }
    SSDResult result{width_, height_, {}};
    for (const auto& one :
         opendpu::tasks::detections(scores, boxes, opendpu::tasks::limits_of(param_))) {
      const auto& box = boxes[one.prior];
      result.bboxes.push_back({one.label, one.score, box[0] - box[2] / 2, box[1] - box[3] / 2,
                               box[2], box[3]});
    }
    return result;
  }

  SSDParam param_;
  bool is_tf_;
  int width_, height_;
  std::vector<Prior> priors_;
  std::vector<OutputTensor> boxes_, scores_;
};

}  // namespace

std::unique_ptr<SSDPostProcess> SSDPostProcess::create(
    const std::vector<InputTensor>& input_tensors, const std::vector<OutputTensor>& output_tensors,
    const proto::DpuModelParam& config) {
  return std::make_unique<Post>(input_tensors, output_tensors, config);
}

}  // namespace ai
}  // namespace vitis
