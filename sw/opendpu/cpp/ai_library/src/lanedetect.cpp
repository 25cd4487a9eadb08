// SPDX-License-Identifier: Apache-2.0
// VPGNet: images in, lines on the road out.
#include "vitis/ai/lanedetect.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <opencv2/core.hpp>
#include <stdexcept>

#include "ground.hpp"
#include "one_by_one.hpp"
#include "outputs.hpp"

std::string g_roadline_acc_outdir;

namespace vitis {
namespace ai {
namespace {

using opendpu::tasks::Ground;
using opendpu::tasks::InputTensor;
using opendpu::tasks::OutputTensor;

// Nothing, white and dotted, white and solid, yellow.
constexpr std::size_t kKinds = 4;
// Pixels of the input that one of the output stands for.
constexpr int kStride = 8;
// Pixels seen from above so near to each other are of one line.
constexpr int kNearRows = 6, kNearColumns = 2;

std::vector<int> kinds(const OutputTensor& tensor, std::size_t sample) {
  const auto values = opendpu::tasks::values(tensor, sample);
  std::vector<int> made;
  for (auto at = values.begin(); at != values.end(); at += kKinds) {
    made.push_back(static_cast<int>(std::max_element(at, at + kKinds) - at));
  }
  return made;
}

// The middle pixel of each row's runs of two or more of a kind; all others become 0.
std::vector<int> middles(const std::vector<int>& kinds, std::size_t width) {
  std::vector<int> made(kinds.size());
  for (std::size_t row = 0; row < kinds.size(); row += width) {
    for (std::size_t first = row, end; first < row + width; first = end) {
      for (end = first; end < row + width && kinds[end] == kinds[first];) ++end;
      if (kinds[first] > 0 && end - first > 1) {
        made[end - 1 - (end - first) / 2] = kinds[first];
      }
    }
  }
  return made;
}

// Numbers lines from 1, from the bottom to the top, by pixels that are near to each other.
std::vector<int> numbered(const std::vector<int>& seen, std::size_t width) {
  std::vector<std::pair<int, int>> places;
  for (std::size_t i = seen.size(); i-- > 0;) {
    if (seen[i] > 0) places.emplace_back(static_cast<int>(i / width), static_cast<int>(i % width));
  }
  std::vector<int> made(seen.size());
  int lines = 0;
  for (const auto& [row, column] : places) {
    int& line = made[static_cast<std::size_t>(row) * width + static_cast<std::size_t>(column)];
    if (line == 0) line = ++lines;
    for (const auto& [y, x] : places) {
      int& other = made[static_cast<std::size_t>(y) * width + static_cast<std::size_t>(x)];
      const bool near = std::abs(row - y) <= kNearRows && std::abs(column - x) <= kNearColumns;
      if (other == 0 && near) other = line;
    }
  }
  return made;
}

// What most of the values but the first are, if more than half agree; the library leaves the
// first out.
int vote(const std::vector<int>& values) {
  int candidate = -1, lead = 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (lead == 0) candidate = values[i];
    lead += values[i] == candidate ? 1 : -1;
  }
  return candidate;
}

// The straight line that is nearest to points, a point a column. Along one column there is none; y
// is 0 there, as in the library.
std::vector<cv::Point> straight(const std::vector<cv::Point>& points) {
  double x = 0, y = 0, xx = 0, xy = 0;
  int low = points.front().x, high = low;
  for (const auto& point : points) {
    x += point.x;
    y += point.y;
    xx += static_cast<double>(point.x) * point.x;
    xy += static_cast<double>(point.x) * point.y;
    low = std::min(low, point.x);
    high = std::max(high, point.x);
  }
  const auto number = static_cast<double>(points.size());
  const double slope = low == high ? 0 : (number * xy - x * y) / (number * xx - x * x);
  const double offset = low == high ? 0 : (y - slope * x) / number;
  std::vector<cv::Point> made;
  for (int column = low; column <= high; ++column) {
    made.emplace_back(column, static_cast<int>(offset + slope * column));
  }
  return made;
}

void append(const std::vector<int>& values, const std::string& name) {
  const auto path = std::filesystem::path(g_roadline_acc_outdir) / name;
  std::ofstream file(path, std::ios::app);
  for (const int value : values) file << value << " ";
  file << std::endl;
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

// See g_roadline_acc_outdir.
void write_down(const std::vector<int>& kinds, const std::vector<int>& seeds, std::size_t width) {
  std::vector<int> rows, columns;
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    if (seeds[i] == 0) continue;
    rows.push_back(static_cast<int>(i / width));
    columns.push_back(static_cast<int>(i % width));
  }
  std::filesystem::create_directories(g_roadline_acc_outdir);
  append(kinds, "datase.txt");
  append(rows, "seedx.txt");
  append(columns, "seedy.txt");
}

class Post : public RoadLinePostProcess {
 public:
  Post(const InputTensor& input, const std::vector<OutputTensor>& outputs,
       const proto::DpuModelParam& config)
      : input_(input), ground_(config.roadline_param()) {
    const auto& names = config.roadline_param().layer_name();
    output_ = opendpu::tasks::outputs_named(outputs, names).at(0);
    if (output_.channel != kKinds || output_.width != ground_.width() ||
        output_.height != ground_.height()) {
      const auto size = [](std::size_t height, std::size_t width, std::size_t channels) {
        return std::to_string(height) + "x" + std::to_string(width) + "x" +
               std::to_string(channels);
      };
      throw std::runtime_error(
          "output " + output_.name + " is " +
          size(output_.height, output_.width, output_.channel) + ", but must be " +
          size(ground_.height(), ground_.width(), kKinds) +
          ", as ipm_height and ipm_width of roadline_param say");
    }
  }

  std::vector<RoadLineResult> road_line_post_process(const std::vector<int>&,
                                                     const std::vector<int>&,
                                                     std::size_t batch_size) override {
    std::vector<RoadLineResult> results;
    for (std::size_t sample = 0; sample < batch_size; ++sample) {
      results.push_back({static_cast<int>(input_.width), static_cast<int>(input_.height),
                         lines(kinds(output_, sample))});
    }
    return results;
  }

 private:
  std::vector<RoadLineResult::Line> lines(const std::vector<int>& kinds) const {
    const auto width = ground_.width();
    const auto seeds = middles(kinds, width);
    if (!g_roadline_acc_outdir.empty()) write_down(kinds, seeds, width);
    const auto above = ground_.from_above(seeds);
    const auto owners = ground_.from_camera(numbered(above, width));
    const int last = *std::max_element(owners.begin(), owners.end());
    std::vector<std::vector<cv::Point>> points(static_cast<std::size_t>(last) + 1);
    std::vector<std::vector<int>> theirs(points.size());
    for (std::size_t i = 0; i < owners.size(); ++i) {
      const auto line = static_cast<std::size_t>(owners[i]);
      const auto middle = [](std::size_t at) { return static_cast<int>(at) * kStride + kStride / 2; };
      points[line].emplace_back(middle(i % width), middle(i / width));
      theirs[line].push_back(kinds[i]);
    }
    std::vector<RoadLineResult::Line> made;
    // Lines behind one that other pixels cover whole are not told, as in the library.
    for (std::size_t line = 1; line < points.size() && !points[line].empty(); ++line) {
      made.push_back({vote(theirs[line]), straight(points[line])});
    }
    return made;
  }

  InputTensor input_;
  Ground ground_;
  OutputTensor output_;
};

class RoadLineImp : public RoadLine {
 public:
  RoadLineImp(const std::string& name, bool need_preprocess)
      : RoadLine(name, need_preprocess),
        post_(RoadLinePostProcess::create(configurable_dpu_task_->getInputTensor()[0],
                                          configurable_dpu_task_->getOutputTensor()[0],
                                          configurable_dpu_task_->getConfig())) {}

  RoadLineResult run(const cv::Mat& image) override {
    auto& task = *configurable_dpu_task_;
    task.setInputImageBGR(opendpu::tasks::resized(image, getInputWidth(), getInputHeight()));
    task.run(0);
    return post_->road_line_post_process({image.cols}, {image.rows}, 1).front();
  }
  std::vector<RoadLineResult> run(const std::vector<cv::Mat>& images) override {
    return opendpu::tasks::one_by_one(images, [this](const cv::Mat& image) { return run(image); });
  }

 private:
  std::unique_ptr<RoadLinePostProcess> post_;
};

}  // namespace

std::unique_ptr<RoadLinePostProcess> RoadLinePostProcess::create(
    const std::vector<library::InputTensor>& input_tensors,
    const std::vector<library::OutputTensor>& output_tensors,
    const proto::DpuModelParam& config) {
  if (config.name() == "roadline_deephi" ||
      config.model_type() == proto::DpuModelParam::ROADLINE_DEEPHI) {
    throw std::runtime_error("model " + config.name() +
                             " is of type ROADLINE_DEEPHI, but only ROADLINE is known");
  }
  return std::make_unique<Post>(input_tensors.at(0), output_tensors, config);
}

std::unique_ptr<RoadLine> RoadLine::create(const std::string& model_name, bool need_preprocess) {
  return std::make_unique<RoadLineImp>(model_name, need_preprocess);
}

}  // namespace ai
}  // namespace vitis
