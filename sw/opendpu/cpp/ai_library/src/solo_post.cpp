// SPDX-License-Identifier: Apache-2.0
// Objects out of SOLO's outputs: each cell and class with a score is one, its mask the product of
// one for the cell's column and one for its row. Those that another one covers lose score.
#include <algorithm>
#include <array>
#include <cmath>
#include <opencv2/imgproc.hpp>
#include <stdexcept>
#include <string>

#include "outputs.hpp"
#include "vitis/ai/nnpp/solo.hpp"

namespace vitis {
namespace ai {
namespace {

using library::OutputTensor;

// What a mask must be larger than, of each level.
constexpr std::array<int, 5> kStrides = {8, 8, 16, 32, 32};
constexpr std::size_t kLevels = kStrides.size();
constexpr float kDecay = 2;

struct Object {
  int label;
  float score;
  std::vector<float> soft;
  std::vector<bool> mask;
  int pixels;
};

// The outputs of a level.
struct Level {
  const OutputTensor &columns, &rows, &largest, &scores;

  Level(const std::vector<OutputTensor>& outputs, const std::vector<int>& numbers, std::size_t i)
      : columns(outputs.at(static_cast<std::size_t>(numbers[i]))),
        rows(outputs.at(static_cast<std::size_t>(numbers[kLevels + i]))),
        largest(outputs.at(static_cast<std::size_t>(numbers[2 * kLevels + i]))),
        scores(outputs.at(static_cast<std::size_t>(numbers[3 * kLevels + i]))) {
    const bool fits = columns.channel == scores.width && rows.channel == scores.height &&
                      columns.height == rows.height && columns.width == rows.width &&
                      largest.channel == scores.channel && largest.width >= scores.width &&
                      largest.height >= scores.height;
    if (!fits) {
      throw std::runtime_error("outputs " + columns.name + ", " + rows.name + ", " + largest.name +
                               " and " + scores.name + " are not those of one level");
    }
  }
};

// One of the masks in an output.
std::vector<float> plane(const std::vector<float>& values, const OutputTensor& output,
                         std::size_t channel) {
  std::vector<float> made(output.height * output.width);
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = values[i * output.channel + channel];
  return made;
}

void find(const Level& level, std::size_t sample, int stride, const proto::SoloParam& param,
          std::vector<Object>& objects) {
  using opendpu::tasks::values;
  const auto columns = values(level.columns, sample), rows = values(level.rows, sample);
  const auto largest = values(level.largest, sample), scores = values(level.scores, sample);
  const auto classes = level.scores.channel;
  for (std::size_t cell = 0; cell < level.scores.height * level.scores.width; ++cell) {
    const auto row = cell / level.scores.width, column = cell % level.scores.width;
    for (std::size_t c = 0; c < classes; ++c) {
      const float score = scores[cell * classes + c];
      if (score != largest[(row * level.largest.width + column) * classes + c]) continue;
      if (!(score > param.score_thr())) continue;
      Object object{static_cast<int>(c), score, plane(rows, level.rows, row), {}, 0};
      const auto other = plane(columns, level.columns, column);
      float sum = 0;
      for (std::size_t i = 0; i < other.size(); ++i) {
        object.soft[i] *= other[i];
        object.mask.push_back(object.soft[i] > param.mask_thr());
        if (!object.mask[i]) continue;
        ++object.pixels;
        sum += object.soft[i];
      }
      if (object.pixels <= stride) continue;
      object.score *= sum / static_cast<float>(object.pixels);
      objects.push_back(std::move(object));
    }
  }
}

// The best, by falling score.
void keep_best(std::vector<Object>& objects, std::size_t most) {
  std::stable_sort(objects.begin(), objects.end(),
                   [](const Object& a, const Object& b) { return a.score > b.score; });
  if (objects.size() > most) objects.resize(most);
}

float overlap(const Object& a, const Object& b) {
  int shared = 0;
  for (std::size_t i = 0; i < a.mask.size(); ++i) shared += a.mask[i] && b.mask[i];
  return static_cast<float>(shared) / static_cast<float>(a.pixels + b.pixels - shared);
}

// Matrix NMS: objects lose score by what better ones of their class cover of them, less so where
// those are covered themselves.
void decay(std::vector<Object>& objects) {
  std::vector<float> factors(objects.size(), 1), most(objects.size(), 0);
  for (std::size_t k = 0; k < objects.size(); ++k) {
    for (std::size_t i = 0; i < k; ++i) {
      if (objects[i].label != objects[k].label) continue;
      const float share = overlap(objects[i], objects[k]);
      factors[k] = std::min(factors[k],
                            std::exp(-kDecay * share * share) / std::exp(-kDecay * most[i] * most[i]));
      most[k] = std::max(most[k], share);
    }
  }
  for (std::size_t k = 0; k < objects.size(); ++k) objects[k].score *= factors[k];
}

}  // namespace

SoloResult solo_post_process(const std::vector<library::InputTensor>& input_tensors,
                             const std::vector<OutputTensor>& output_tensors,
                             const proto::DpuModelParam& config, std::vector<int> size,
                             std::vector<int> ind, std::size_t batch_ind) {
  const auto& param = config.solo_param();
  if (ind.size() != 4 * kLevels) {
    throw std::runtime_error("solo_param has " + std::to_string(ind.size()) +
                             " output_tensor_name, but must have " + std::to_string(4 * kLevels));
  }
  const auto& masks = output_tensors.at(static_cast<std::size_t>(ind[0]));
  std::vector<Object> objects;
  for (std::size_t i = 0; i < kLevels; ++i) {
    const Level level(output_tensors, ind, i);
    if (level.rows.height != masks.height || level.rows.width != masks.width) {
      throw std::runtime_error("outputs " + level.rows.name + " and " + masks.name +
                               " have masks of different sizes");
    }
    find(level, batch_ind, kStrides[i], param, objects);
  }
  keep_best(objects, param.nms_pre());
  decay(objects);
  objects.erase(std::remove_if(objects.begin(), objects.end(),
                               [&](const Object& o) { return !(o.score > param.update_thr()); }),
                objects.end());
  keep_best(objects, param.max_per_img());

  const auto& input = input_tensors.at(0);
  SoloResult result{static_cast<int>(input.width), static_cast<int>(input.height), {}, {}, {}};
  const int columns = size.at(0), rows = size.at(1);
  result.seg_masks.shape = {objects.size(), static_cast<std::size_t>(rows),
                            static_cast<std::size_t>(columns)};
  result.seg_masks.dim = 3;
  result.cate_labels.zeros({objects.size()});
  result.cate_scores.zeros({objects.size()});
  for (std::size_t i = 0; i < objects.size(); ++i) {
    result.cate_labels[i] = objects[i].label;
    result.cate_scores[i] = objects[i].score;
    cv::Mat soft(static_cast<int>(masks.height), static_cast<int>(masks.width), CV_32FC1,
                 objects[i].soft.data());
    cv::Mat large;
    cv::resize(soft, large, cv::Size(columns, rows));
    std::transform(large.begin<float>(), large.end<float>(),
                   std::back_inserter(result.seg_masks.data),
                   [&](float value) { return value > param.mask_thr() ? 1 : 0; });
  }
  return result;
}

std::vector<SoloResult> solo_post_process_batch(
    const std::vector<library::InputTensor>& input_tensors,
    const std::vector<OutputTensor>& output_tensors, const proto::DpuModelParam& config,
    std::vector<std::vector<int>> size, std::vector<int> ind) {
  std::vector<SoloResult> made;
  for (std::size_t sample = 0; sample < size.size(); ++sample) {
    made.push_back(
        solo_post_process(input_tensors, output_tensors, config, size[sample], ind, sample));
  }
  return made;
}

}  // namespace ai
}  // namespace vitis
