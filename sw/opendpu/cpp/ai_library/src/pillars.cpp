// SPDX-License-Identifier: Apache-2.0
// What PointPillars does around its networks.
#include "pillars.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace opendpu {
namespace tasks {
namespace {

constexpr float kPi = 3.14159265f;
constexpr int kFields = 4;     // of a point
constexpr int kDirections = 2;

void check(bool good, const std::string& what) {
  if (!good) throw std::runtime_error("the _officialcfg.prototxt " + what);
}

// Whether a box lies rather along y than along x.
bool across(float angle) {
  return std::abs(angle - std::floor(angle / kPi + 0.5f) * kPi) > kPi / 4;
}

// The upright rectangle around a box from above: left, top, right, bottom.
std::array<float, 4> standing(const Box& box) {
  const float c = std::abs(std::cos(box[6])), s = std::abs(std::sin(box[6]));
  const float x = (box[3] * c + box[4] * s) / 2, y = (box[3] * s + box[4] * c) / 2;
  return {box[0] - x, box[1] - y, box[0] + x, box[1] + y};
}

// As the library has it, a metre is added to each side.
float area(float width, float height) {
  return std::max(0.f, width + 1) * std::max(0.f, height + 1);
}

float overlap(const std::array<float, 4>& a, const std::array<float, 4>& b) {
  const float shared = area(std::min(a[2], b[2]) - std::max(a[0], b[0]),
                            std::min(a[3], b[3]) - std::max(a[1], b[1]));
  return shared / (area(a[2] - a[0], a[3] - a[1]) + area(b[2] - b[0], b[3] - b[1]) - shared);
}

const OutputTensor& for_anchors(const std::vector<OutputTensor>& outputs, const std::string& name,
                                std::size_t anchors, std::size_t fields) {
  for (const auto& output : outputs) {
    const bool of_directions = output.name.find("dir") != std::string::npos;
    if (output.name.find(name) == std::string::npos || of_directions != (name == "dir")) continue;
    if (elements(output) == anchors * fields) return output;
    throw std::runtime_error("output " + output.name + " has " + std::to_string(elements(output)) +
                             " values, but there are " + std::to_string(anchors) +
                             " anchors, each with " + std::to_string(fields));
  }
  throw std::runtime_error("no output has " + name + " in its name");
}

}  // namespace

PillarGrid::PillarGrid(const vitis::ai::proto::TrainEvalPipelineConfig& config) {
  const auto& voxels = config.model().second().voxel_generator();
  check(voxels.point_cloud_range_size() == 6 && voxels.voxel_size_size() == 3,
        "must have a voxel_generator with a point_cloud_range of six and a voxel_size of three");
  check(config.eval_input_reader_size() > 0, "must have an eval_input_reader");
  for (int i = 0; i < 3; ++i) {
    start[i] = voxels.point_cloud_range(i);
    length[i] = voxels.point_cloud_range(i + 3) - start[i];
    cell[i] = voxels.voxel_size(i);
    check(length[i] > 0 && cell[i] > 0 && length[i] / cell[i] < 1e5f,
          "must have a point_cloud_range and a voxel_size that make up to 100000 cells");
    size[i] = static_cast<int>(std::round(length[i] / cell[i]));
  }
  most_points = voxels.max_number_of_points_per_voxel();
  most_pillars = config.eval_input_reader(0).max_number_of_voxels();
}

std::vector<Pillar> fill_pillars(const PillarGrid& grid, const float* points, std::size_t number,
                                 const InputTensor& input) {
  const auto most_points = std::min(grid.most_points, input.width);
  const auto most_pillars = std::min(grid.most_pillars, input.height);
  if (input.channel != kFields) {
    throw std::runtime_error("input " + input.name + " has " + std::to_string(input.channel) +
                             " channels, but points have four");
  }
  const float scale = tensor_scale(input);
  auto* elements = static_cast<std::int8_t*>(input.get_data(0));
  std::fill_n(elements, input.size / input.batch, std::int8_t{0});
  std::vector<int> pillar_of(static_cast<std::size_t>(grid.size[0]) * grid.size[1], -1);
  std::vector<Pillar> pillars;
  std::vector<std::size_t> filled;
  for (const float* point = points; point != points + number * kFields; point += kFields) {
    std::array<float, 3> place;
    bool inside = true;
    for (int i = 0; i < 3; ++i) {
      place[i] = std::floor(point[i] / grid.cell[i] - grid.start[i] / grid.cell[i]);
      inside = inside && place[i] >= 0 && place[i] < static_cast<float>(grid.size[i]);
    }
    if (!inside) continue;
    const int row = static_cast<int>(place[1]), column = static_cast<int>(place[0]);
    auto& pillar = pillar_of[static_cast<std::size_t>(row) * grid.size[0] + column];
    if (pillar < 0) {
      if (pillars.size() == most_pillars) continue;
      pillar = static_cast<int>(pillars.size());
      pillars.push_back({row, column});
      filled.push_back(0);
    }
    auto& count = filled[static_cast<std::size_t>(pillar)];
    if (count == most_points) continue;
    auto* target = elements + (static_cast<std::size_t>(pillar) * input.width + count++) * kFields;
    for (int i = 0; i < kFields; ++i) {
      const float share = i < 3 ? (point[i] - grid.start[i]) / grid.length[i] : point[i];
      target[i] = static_cast<std::int8_t>(static_cast<int>(std::round(share * scale)));
    }
  }
  return pillars;
}

PillarBoxes::PillarBoxes(const PillarGrid& grid, const vitis::ai::proto::Second& config,
                         const std::vector<OutputTensor>& outputs)
    : rows_(grid.size[1]),
      columns_(grid.size[0]),
      classes_(static_cast<int>(config.num_class())),
      least_score_(config.nms_score_threshold()),
      most_overlap_(config.nms_iou_threshold()),
      most_candidates_(config.nms_pre_max_size()),
      most_boxes_(config.nms_post_max_size()) {
  check(classes_ > 0, "must have a num_class above 0");
  add_anchors(grid, config);
  for_anchors(outputs, "box", anchors_.size(), std::tuple_size<Box>::value);
  for_anchors(outputs, "cls", anchors_.size(), static_cast<std::size_t>(classes_));
  for_anchors(outputs, "dir", anchors_.size(), kDirections);
}

void PillarBoxes::add_anchors(const PillarGrid& grid, const vitis::ai::proto::Second& config) {
  check(config.rpn().layer_strides_size() > 0 && config.rpn().layer_strides(0) > 0,
        "must have an rpn with layer_strides");
  const int stride = static_cast<int>(config.rpn().layer_strides(0));
  for (const auto& generators : config.target_assigner().anchor_generators()) {
    const auto& generator = generators.anchor_generator_stride();
    check(generator.sizes_size() == 3 && generator.strides_size() == 3 &&
              generator.offsets_size() == 3,
          "must have three sizes, strides and offsets in an anchor_generator_stride");
  }
  for (int row = 0; row < rows_ / stride; ++row) {
    for (int column = 0; column < columns_ / stride; ++column) {
      for (const auto& generators : config.target_assigner().anchor_generators()) {
        const auto& generator = generators.anchor_generator_stride();
        const float x = static_cast<float>(column) * generator.strides(0) + generator.offsets(0);
        const float y = static_cast<float>(row) * generator.strides(1) + generator.offsets(1);
        for (const float angle : generator.rotations()) {
          anchors_.push_back({x, y, generator.offsets(2), generator.sizes(0), generator.sizes(1),
                              generator.sizes(2), angle});
        }
      }
    }
  }
  for (const auto& anchor : anchors_) {
    const bool turned = across(anchor[6]);
    const float width = anchor[turned ? 4 : 3], height = anchor[turned ? 3 : 4];
    const auto cell = [&](float place, int axis, int cells) {
      const float whole = std::floor(place / grid.cell[axis] - grid.start[axis] / grid.cell[axis]);
      return static_cast<int>(std::clamp(whole, 0.f, static_cast<float>(cells - 1)));
    };
    covered_.push_back({cell(anchor[0] - width / 2, 0, columns_),
                        cell(anchor[1] - height / 2, 1, rows_),
                        cell(anchor[0] + width / 2, 0, columns_),
                        cell(anchor[1] + height / 2, 1, rows_)});
  }
}

// Anchors with more than one pillar in them; the first row and column do not count.
std::vector<bool> PillarBoxes::seen(const std::vector<Pillar>& pillars) const {
  const auto at = [this](int row, int column) {
    return static_cast<std::size_t>(row) * columns_ + column;
  };
  std::vector<int> sums(static_cast<std::size_t>(rows_) * columns_, 0);
  for (const auto& pillar : pillars) ++sums[at(pillar.row, pillar.column)];
  for (int row = 0; row < rows_; ++row) {
    for (int column = 0; column < columns_; ++column) {
      auto& sum = sums[at(row, column)];
      if (row > 0) sum += sums[at(row - 1, column)];
      if (column > 0) sum += sums[at(row, column - 1)];
      if (row > 0 && column > 0) sum -= sums[at(row - 1, column - 1)];
    }
  }
  std::vector<bool> made;
  for (const auto& [left, top, right, bottom] : covered_) {
    made.push_back(sums[at(bottom, right)] - sums[at(bottom, left)] - sums[at(top, right)] +
                       sums[at(top, left)] > 1);
  }
  return made;
}

std::vector<PillarBoxes::Candidate> PillarBoxes::remaining(std::vector<Candidate> all) const {
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  if (all.size() > most_candidates_) all.resize(most_candidates_);
  std::vector<Candidate> kept;
  std::vector<std::array<float, 4>> around;
  for (const auto& candidate : all) {
    if (kept.size() == most_boxes_) break;
    const auto rectangle = standing(candidate.box);
    const bool covered =
        std::any_of(around.begin(), around.end(), [&](const std::array<float, 4>& other) {
          return overlap(rectangle, other) >= most_overlap_;
        });
    if (covered) continue;
    kept.push_back(candidate);
    around.push_back(rectangle);
  }
  return kept;
}

vitis::ai::PPResult PillarBoxes::found(const std::vector<Pillar>& pillars,
                                       const std::vector<OutputTensor>& outputs) const {
  const auto fields = std::tuple_size<Box>::value;
  const auto boxes = values(for_anchors(outputs, "box", anchors_.size(), fields), 0);
  const auto scores = values(for_anchors(outputs, "cls", anchors_.size(), classes_), 0);
  const auto ways = values(for_anchors(outputs, "dir", anchors_.size(), kDirections), 0);
  const float least = -std::log(1 / least_score_ - 1);
  const auto near = seen(pillars);
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < anchors_.size(); ++i) {
    const auto* score = &scores[i * classes_];
    const auto* best = std::max_element(score, score + classes_);
    if (!near[i] || *best < least) continue;
    const auto& anchor = anchors_[i];
    const auto* code = &boxes[i * fields];
    const float diagonal = std::hypot(anchor[3], anchor[4]);
    Box box{code[0] * diagonal + anchor[0], code[1] * diagonal + anchor[1],
            code[2] * anchor[5] + anchor[2] + anchor[5] / 2,
            std::exp(code[3]) * anchor[3], std::exp(code[4]) * anchor[4],
            std::exp(code[5]) * anchor[5], code[6] + anchor[6]};
    box[2] -= box[5] / 2;
    candidates.push_back({*best, static_cast<int>(best - score), ways[2 * i] < ways[2 * i + 1], box});
  }
  vitis::ai::PPResult result;
  for (auto& candidate : remaining(std::move(candidates))) {
    if ((candidate.box[6] > 0) != candidate.turned) candidate.box[6] += kPi;
    result.final_box_preds.emplace_back(candidate.box.begin(), candidate.box.end());
    result.final_scores.push_back(sigmoid(candidate.score));
    result.label_preds.push_back(candidate.label);
  }
  return result;
}

}  // namespace tasks
}  // namespace opendpu
