// SPDX-License-Identifier: Apache-2.0
// What tasks of the AI Library make of what cameras and lidars give: sensors KIND MODEL ...
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <opencv2/core.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "status.hpp"
#include "vitis/ai/c2d2_lite.hpp"
#include "vitis/ai/centerpoint.hpp"
#include "vitis/ai/pmrid.hpp"
#include "vitis/ai/pointpillars.hpp"

namespace {

using namespace vitis::ai;

template <typename T>
std::vector<T> read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const auto* first = reinterpret_cast<const T*>(bytes.data());
  return {first, first + bytes.size() / sizeof(T)};
}

void write(const std::string& path, const void* data, std::size_t size) {
  std::ofstream(path, std::ios::binary)
      .write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
}

// pmrid MODEL RAW ROWS COLUMNS ISO TARGET
int pmrid(char* argv[]) {
  auto pixels = read<std::uint16_t>(argv[3]);
  const cv::Mat image(std::atoi(argv[4]), std::atoi(argv[5]), CV_16UC1, pixels.data());
  const auto iso = static_cast<float>(std::atof(argv[6]));
  auto task = PMRID::create(argv[2], true);
  const auto made = task->run(image, iso);
  const auto both = task->run(std::vector<cv::Mat>{image, image}, std::vector<float>{iso, iso});
  if (both.size() != 2 || both[0] != made || both[1] != made) return 1;
  write(argv[7], made.data(), made.size() * sizeof(float));
  return 0;
}

// c2d2 MODEL MODEL GRAY ROWS COLUMNS
int c2d2(char* argv[]) {
  auto pixels = read<std::uint8_t>(argv[4]);
  const int rows = std::atoi(argv[5]), columns = std::atoi(argv[6]);
  std::vector<cv::Mat> clip;
  for (std::size_t i = 0; i < pixels.size(); i += static_cast<std::size_t>(rows * columns)) {
    clip.emplace_back(rows, columns, CV_8UC1, &pixels[i]);
  }
  auto task = C2D2_lite::create(argv[2], argv[3]);
  const auto both = task->run(std::vector<std::vector<cv::Mat>>{clip, clip});
  const float value = task->run(clip);
  if (both.size() != 2 || both[0] != value || both[1] != value) return 1;
  std::printf("%.9g %d %d %zu\n", value, task->getInputWidth(), task->getInputHeight(),
              task->get_input_batch());
  return 0;
}

void tell(const V1F& values) {
  for (const float value : values) std::printf("%.9g ", value);
  std::printf("\n");
}

// pillars MODEL MODEL POINTS ROWS COLUMNS TARGET: boxes, annotations, and three pictures.
int pillars(char* argv[]) {
  const auto points = read<float>(argv[4]);
  auto task = PointPillars::create(argv[2], argv[3]);
  auto found = task->run(points);
  const auto both = task->run(V2F{points, {}});
  if (both.size() != 2 || both[0].ppresult.final_scores != found.ppresult.final_scores ||
      !both[1].ppresult.final_scores.empty() || task->get_input_batch() != 1) {
    return 1;
  }
  const auto& result = found.ppresult;
  std::printf("size %d %d %zu\n", found.width, found.height, result.final_scores.size());
  for (std::size_t i = 0; i < result.final_scores.size(); ++i) {
    std::printf("%d %.9g ", result.label_preds.at(i), result.final_scores[i]);
    tell(result.final_box_preds.at(i));
  }
  const V2F one{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
  const V2F lens{{100, 0, 60, 0}, {0, 100, 40, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
  const V2F turned{{0, -1, 0, 0}, {0, 0, -1, 0}, {1, 0, 0, 0}, {0, 0, 0, 1}};
  DISPLAY_PARAM calibration{lens, one, turned, lens};
  const int rows = std::atoi(argv[5]), columns = std::atoi(argv[6]);
  cv::Mat photo(rows, columns, CV_8UC3, cv::Scalar(0, 0, 0)), view = bev_preprocess(points);
  const std::string target = argv[7];
  write(target + ".points", view.data, view.total() * 3);
  view = cv::Scalar(0, 0, 0);
  ANNORET annotations;
  task->do_pointpillar_display(found, E_BEV | E_RGB, calibration, photo, view, columns, rows,
                               annotations);
  write(target + ".photo", photo.data, photo.total() * 3);
  write(target + ".view", view.data, view.total() * 3);
  for (std::size_t i = 0; i < annotations.score.size(); ++i) {
    const auto& box = annotations.bbox.at(i);
    std::printf("%s %d %d %d %d %d %.9g %.9g ", annotations.name.at(i).c_str(),
                annotations.label.at(i), box[0], box[1], box[2], box[3], annotations.alpha.at(i),
                annotations.score[i]);
    tell(annotations.location.at(i));
  }
  return 0;
}

// centers MODEL MODEL POINTS: score, label and box of each object.
int centers(char* argv[]) {
  const auto points = read<float>(argv[4]);
  auto task = CenterPoint::create(argv[2], argv[3]);
  const auto found = task->run(points);
  const auto both = task->run(V2F{points, {}});
  if (both.size() != 2 || both[0].size() != found.size()) return 1;
  std::printf("size %d %d %zu\n", task->getInputWidth(), task->getInputHeight(),
              task->get_input_batch());
  for (const auto& object : found) {
    std::printf("%.9g %d ", object.score, object.label);
    tell(object.bbox);
  }
  return 0;
}

int run(char* argv[]) {
  const std::string kind = argv[1];
  if (kind == "pmrid") return pmrid(argv);
  if (kind == "c2d2") return c2d2(argv);
  if (kind == "pillars") return pillars(argv);
  if (kind == "centers") return centers(argv);
  throw std::invalid_argument("there is no task " + kind);
}

}  // namespace

int main(int, char* argv[]) {
  return status_of([&] { return run(argv); });
}
