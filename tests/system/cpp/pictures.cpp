// SPDX-License-Identifier: Apache-2.0
// What tasks of the AI Library for persons, faces, roads and pictures find: pictures KIND MODEL
// PICTURE.
#include <cstdio>
#include <opencv2/imgcodecs.hpp>

#include "status.hpp"
#include "vitis/ai/facequality5pt.hpp"
#include "vitis/ai/hourglass.hpp"
#include "vitis/ai/medicalsegmentation.hpp"
#include "vitis/ai/movenet.hpp"
#include "vitis/ai/openpose.hpp"
#include "vitis/ai/rcan.hpp"
#include "vitis/ai/retinaface.hpp"
#include "vitis/ai/ultrafast.hpp"

namespace {

using namespace vitis::ai;

template <typename Points>
void tell_points(const Points& points) {
  for (const auto& point : points) {
    std::printf("%d %.9g %.9g\n", point.type, point.point.x, point.point.y);
  }
}

void tell_pixels(const cv::Mat& image) {
  const auto values = image.reshape(1);
  for (int row = 0; row < values.rows; ++row) {
    for (int i = 0; i < values.cols; ++i) std::printf("%d ", values.at<std::uint8_t>(row, i));
    std::printf("\n");
  }
}

void tell(const OpenPoseResult& result) {
  for (const auto& person : result.poses) tell_points(person);
}

void tell(const HourglassResult& result) { tell_points(result.poses); }

void tell(const MovenetResult& result) {
  for (const auto& joint : result.poses) std::printf("%.9g %.9g\n", joint.x, joint.y);
}

void tell(const RetinaFaceResult& result) {
  for (std::size_t i = 0; i < result.bboxes.size(); ++i) {
    const auto& box = result.bboxes[i];
    std::printf("%.9g %.9g %.9g %.9g %.9g", box.score, box.x, box.y, box.width, box.height);
    for (const auto& [x, y] : result.landmarks.at(i)) std::printf(" %.9g %.9g", x, y);
    std::printf("\n");
  }
}

void tell(const FaceQuality5ptResult& result) {
  std::printf("%.9g 0\n", result.score);
  for (const auto& [x, y] : result.points) std::printf("%.9g %.9g\n", x, y);
}

void tell(const UltraFastResult& result) {
  for (const auto& lane : result.lanes) {
    for (const auto& [x, y] : lane) std::printf("%.9g %.9g\n", x, y);
  }
}

void tell(const RcanResult& result) { tell_pixels(result.feat); }

void tell(const MedicalSegmentationResult& result) {
  for (const auto& image : result.segmentation) {
    std::printf("picture %d %d\n", image.rows, image.cols);
    tell_pixels(image);
  }
}

// One picture is told; several give as many results.
template <typename Task>
void answer(Task& model, const cv::Mat& image) {
  const auto result = model.run(image);
  std::printf("size %d %d\n", result.width, result.height);
  tell(result);
  const std::vector<cv::Mat> images(2, image);
  if (model.run(images).size() != 2) throw std::runtime_error("two pictures give two results");
}

void run(const std::string& kind, const std::string& name, const cv::Mat& image) {
  if (kind == "openpose") return answer(*OpenPose::create(name), image);
  if (kind == "hourglass") return answer(*Hourglass::create(name), image);
  if (kind == "movenet") return answer(*Movenet::create(name), image);
  if (kind == "retinaface") return answer(*RetinaFace::create(name), image);
  if (kind == "ultrafast") return answer(*UltraFast::create(name), image);
  if (kind == "rcan") return answer(*Rcan::create(name), image);
  if (kind == "medical") return answer(*MedicalSegmentation::create(name), image);
  if (kind == "day") return answer(*FaceQuality5pt::create(name), image);
  if (kind == "night") {
    auto model = FaceQuality5pt::create(name);
    model->setMode(FaceQuality5pt::Mode::NIGHT);
    if (model->getMode() != FaceQuality5pt::Mode::NIGHT) throw std::runtime_error("it is day");
    return answer(*model, image);
  }
  throw std::invalid_argument("there is no task " + kind);
}

}  // namespace

int main(int, char* argv[]) {
  return status_of([&] {
    run(argv[1], argv[2], cv::imread(argv[3]));
    return 0;
  });
}
