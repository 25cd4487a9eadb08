// SPDX-License-Identifier: Apache-2.0
// What tasks of the AI Library for traffic find in a picture: roads KIND MODEL PICTURE [FOLDER],
// where lines on roads are written down.
#include <cstdio>
#include <opencv2/imgcodecs.hpp>

#include "status.hpp"
#include "vitis/ai/lanedetect.hpp"
#include "vitis/ai/multitaskv3.hpp"
#include "vitis/ai/ofa_yolo.hpp"
#include "vitis/ai/vehicleclassification.hpp"

namespace {

using namespace vitis::ai;

void tell(const OFAYOLOResult& result) {
  for (const auto& box : result.bboxes) {
    std::printf("%d %.9g %.9g %.9g %.9g %.9g\n", box.label, box.score, box.x, box.y, box.width,
                box.height);
  }
}

void tell(VehicleClassificationResult result) {
  for (const auto& score : result.scores) {
    std::printf("%d %.9g %s\n", score.index, score.score, result.lookup(score.index));
  }
}

void tell(const RoadLineResult& result) {
  for (const auto& line : result.lines) {
    std::printf("%d", line.type);
    for (const auto& point : line.points_cluster) std::printf(" %d %d", point.x, point.y);
    std::printf("\n");
  }
}

void tell(const MultiTaskv3Result& result) {
  for (const auto& one : result.vehicle) {
    std::printf("%d %.9g %.9g %.9g %.9g %.9g %.9g\n", one.label, one.score, one.x, one.y, one.width,
                one.height, one.angle);
  }
  for (const auto& image : {result.segmentation, result.lane, result.drivable, result.depth}) {
    std::printf("pixels");
    const auto values = image.reshape(1, 1);
    for (int i = 0; i < values.cols; ++i) std::printf(" %d", values.at<std::uint8_t>(0, i));
    std::printf("\n");
  }
}

// One picture is told; several give as many results.
template <typename Task>
void answer(const std::string& name, const cv::Mat& image) {
  auto model = Task::create(name);
  const auto result = model->run(image);
  std::printf("size %d %d\n", result.width, result.height);
  tell(result);
  const std::vector<cv::Mat> images(2, image);
  if (model->run(images).size() != 2) throw std::runtime_error("two pictures give two results");
}

void run(const std::string& kind, const std::string& name, const cv::Mat& image) {
  if (kind == "ofayolo") return answer<OFAYOLO>(name, image);
  if (kind == "vehicle") return answer<VehicleClassification>(name, image);
  if (kind == "lines") return answer<RoadLine>(name, image);
  if (kind == "multitask") return answer<MultiTaskv38UC1>(name, image);
  if (kind == "multicolour") return answer<MultiTaskv38UC3>(name, image);
  throw std::invalid_argument("there is no task " + kind);
}

}  // namespace

int main(int argc, char* argv[]) {
  return status_of([&] {
    if (argc > 4) g_roadline_acc_outdir = argv[4];
    run(argv[1], argv[2], cv::imread(argv[3]));
    return 0;
  });
}
