// SPDX-License-Identifier: Apache-2.0
// Boxes out of the outputs of SSD.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "outputs.hpp"
#include "prior_boxes.hpp"
#include "vitis/ai/nnpp/apply_nms.hpp"
#include "vitis/ai/nnpp/ssd.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::InputTensor;
using opendpu::tasks::OutputTensor;
using opendpu::tasks::Prior;
using proto::SSDParam;

std::size_t size_of(const std::vector<OutputTensor>& tensors) {
  std::size_t sum = 0;
  for (const auto& tensor : tensors) sum += opendpu::tasks::elements(tensor);
  return sum;
}

std::vector<float> joined(const std::vector<OutputTensor>& tensors, std::size_t sample) {
  std::vector<float> made;
  for (const auto& tensor : tensors) {
    const auto part = opendpu::tasks::values(tensor, sample);
    made.insert(made.end(), part.begin(), part.end());
  }
  return made;
}

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
    priors_ = opendpu::tasks::prior_boxes(param_, is_tf_, width_, height_);
    find(outputs);
    const auto classes = static_cast<std::size_t>(std::max(param_.num_classes(), 1));
    if (size_of(boxes_) != 4 * priors_.size() || size_of(scores_) != classes * priors_.size()) {
      throw std::runtime_error(
          "there are " + std::to_string(priors_.size()) + " prior boxes and " +
          std::to_string(classes) + " classes, but outputs have " +
          std::to_string(size_of(boxes_)) + " values of boxes and " +
          std::to_string(size_of(scores_)) + " of classes");
    }
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

  // Centre, width and height of every box, corners within the image.
  std::vector<std::vector<float>> places(const std::vector<float>& codes) const {
    std::vector<std::vector<float>> made;
    made.reserve(priors_.size());
    for (std::size_t i = 0; i < priors_.size(); ++i) {
      const auto& prior = priors_[i];
      const float* code = &codes[4 * i];
      const auto& v = prior.variances;
      const float dx = code[is_tf_ ? 1 : 0], dy = code[is_tf_ ? 0 : 1];
      const float dw = code[is_tf_ ? 3 : 2], dh = code[is_tf_ ? 2 : 3];
      const float x = prior.x + v[0] * dx * prior.width, y = prior.y + v[1] * dy * prior.height;
      const float w = prior.width * std::exp(v[2] * dw), h = prior.height * std::exp(v[3] * dh);
      const float left = std::clamp(x - w / 2, 0.f, 1.f), right = std::clamp(x + w / 2, 0.f, 1.f);
      const float top = std::clamp(y - h / 2, 0.f, 1.f), bottom = std::clamp(y + h / 2, 0.f, 1.f);
      made.push_back({(left + right) / 2, (top + bottom) / 2, right - left, bottom - top});
    }
    return made;
  }

  float threshold(int label) const {
    const auto& all = param_.conf_threshold();
    if (all.empty()) return 0;
    return label < all.size() ? all[label] : *std::min_element(all.begin(), all.end());
  }

  SSDResult of(std::size_t sample) const {
    const auto boxes = places(joined(boxes_, sample));
    auto scores = joined(scores_, sample);
    const auto classes = static_cast<std::size_t>(param_.num_classes());
    for (std::size_t i = 0; i < priors_.size(); ++i) {
      opendpu::tasks::softmax(&scores[i * classes], classes);
    }
    SSDResult result{width_, height_, {}};
    for (int label = 1; label < param_.num_classes(); ++label) {
      add_class(label, boxes, scores, result);
    }
    std::stable_sort(result.bboxes.begin(), result.bboxes.end(),
                     [](const auto& a, const auto& b) { return a.score > b.score; });
    const auto limit = static_cast<std::size_t>(param_.keep_top_k());
    if (limit > 0 && result.bboxes.size() > limit) result.bboxes.resize(limit);
    return result;
  }

  void add_class(int label, const std::vector<std::vector<float>>& boxes,
                 const std::vector<float>& scores, SSDResult& result) const {
    std::vector<std::size_t> chosen;
    const auto score_of = [&](std::size_t i) { return scores[i * param_.num_classes() + label]; };
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      if (score_of(i) > threshold(label)) chosen.push_back(i);
    }
    std::stable_sort(chosen.begin(), chosen.end(),
                     [&](std::size_t a, std::size_t b) { return score_of(a) > score_of(b); });
    const auto limit = static_cast<std::size_t>(param_.top_k());
    if (limit > 0 && chosen.size() > limit) chosen.resize(limit);
    std::vector<std::vector<float>> places;
    std::vector<float> theirs;
    for (const auto i : chosen) {
      places.push_back(boxes[i]);
      theirs.push_back(score_of(i));
    }
    std::vector<std::size_t> kept;
    applyNMS(places, theirs, param_.nms_threshold(), threshold(label), kept);
    for (const auto i : kept) {
      const auto& box = places[i];
      result.bboxes.push_back({label, theirs[i], box[0] - box[2] / 2, box[1] - box[3] / 2, box[2],
                               box[3]});
    }
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
