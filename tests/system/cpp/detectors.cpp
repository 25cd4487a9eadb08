// SPDX-License-Identifier: Apache-2.0
// What further tasks of the AI Library find in a picture: detectors KIND MODEL PICTURE.
#include <cstdio>
#include <opencv2/imgcodecs.hpp>

#include "status.hpp"
#include "vitis/ai/efficientdet_d2.hpp"
#include "vitis/ai/facefeature.hpp"
#include "vitis/ai/multitask.hpp"
#include "vitis/ai/platedetect.hpp"
#include "vitis/ai/platenum.hpp"
#include "vitis/ai/posedetect.hpp"
#include "vitis/ai/refinedet.hpp"
#include "vitis/ai/reid.hpp"
#include "vitis/ai/tfssd.hpp"
#include "vitis/ai/yolov4.hpp"
#include "vitis/ai/yolov6.hpp"
#include "vitis/ai/yolov7.hpp"
#include "vitis/ai/yolov8.hpp"

namespace {

template <typename Result>
void tell(const Result& result) {
  std::printf("size %d %d\n", result.width, result.height);
  for (const auto& box : result.bboxes) {
    std::printf("%d %.9g %.9g %.9g %.9g %.9g\n", box.label, box.score, box.x, box.y, box.width,
                box.height);
  }
}

void tell(const vitis::ai::PlateDetectResult& result) {
  std::printf("size %d %d\n", result.width, result.height);
  const auto& box = result.box;
  std::printf("%.9g %.9g %.9g %.9g %.9g\n", box.score, box.x, box.y, box.width, box.height);
  for (const auto& point :
       {result.top_left, result.top_right, result.bottom_right, result.bottom_left}) {
    std::printf("%.9g %.9g\n", point.x, point.y);
  }
}

void tell(const vitis::ai::PlateNumResult& result) {
  std::printf("%d %d %s %s\n", result.width, result.height, result.plate_number.c_str(),
              result.plate_color.c_str());
}

void tell(const vitis::ai::PoseDetectResult& result) {
  std::printf("size %d %d\n", result.width, result.height);
  // Programs read the joints as an array, in the order of their declaration.
  const auto* joints = reinterpret_cast<const float*>(&result.pose14pt);
  for (int i = 0; i < 14; ++i) std::printf("%.9g %.9g\n", joints[2 * i], joints[2 * i + 1]);
  const auto& neck = result.pose14pt.neck;
  std::printf("%.9g %.9g\n", neck.x, neck.y);
}

void tell(const vitis::ai::ReidResult& result) {
  std::printf("size %d %d\n", result.width, result.height);
  for (int i = 0; i < result.feat.cols; ++i) std::printf("%.9g\n", result.feat.at<float>(0, i));
}

void tell(const vitis::ai::MultiTaskResult& result) {
  std::printf("size %d %d\n", result.width, result.height);
  for (const auto& one : result.vehicle) {
    std::printf("%d %.9g %.9g %.9g %.9g %.9g %.9g\n", one.label, one.score, one.x, one.y, one.width,
                one.height, one.angle);
  }
  std::printf("pixels\n");
  const auto values = result.segmentation.reshape(1);
  for (int row = 0; row < values.rows; ++row) {
    for (int i = 0; i < values.cols; ++i) std::printf("%d ", values.at<std::uint8_t>(row, i));
    std::printf("\n");
  }
}

template <typename Result>
void tell_corners(const Result& result) {
  for (const auto& box : result.bboxes) {
    std::printf("%d %.9g %.9g %.9g %.9g %.9g\n", box.label, box.score, box.box.at(0),
                box.box.at(1), box.box.at(2), box.box.at(3));
  }
}

void tell(const vitis::ai::YOLOv6Result& result) { tell_corners(result); }
void tell(const vitis::ai::YOLOv8Result& result) { tell_corners(result); }

void tell(const vitis::ai::FaceFeatureFloatResult& result) {
  std::printf("size %d %d\n", result.width, result.height);
  for (const auto value : *result.feature) std::printf("%.9g\n", value);
}

void tell(const vitis::ai::FaceFeatureFixedResult& result) {
  std::printf("size %d %d\n", result.width, result.height);
  for (const auto value : *result.feature) std::printf("%.9g\n", value * result.scale);
}

// One picture is told; several give as many results.
template <typename Task>
void answer(const std::string& name, const cv::Mat& image) {
  auto model = Task::create(name);
  tell(model->run(image));
  const std::vector<cv::Mat> images(2, image);
  if (model->run(images).size() != 2) throw std::runtime_error("two pictures give two results");
}

void run(const std::string& kind, const std::string& name, const cv::Mat& image) {
  if (kind == "refinedet") return answer<vitis::ai::RefineDet>(name, image);
  if (kind == "efficient") return answer<vitis::ai::EfficientDetD2>(name, image);
  if (kind == "plate") return answer<vitis::ai::PlateDetect>(name, image);
  if (kind == "number") return answer<vitis::ai::PlateNum>(name, image);
  if (kind == "pose") return answer<vitis::ai::PoseDetect>(name, image);
  if (kind == "reid") return answer<vitis::ai::Reid>(name, image);
  if (kind == "multitask") return answer<vitis::ai::MultiTask8UC1>(name, image);
  if (kind == "multicolour") return answer<vitis::ai::MultiTask8UC3>(name, image);
  if (kind == "features") return answer<vitis::ai::FaceFeature>(name, image);
  if (kind == "fixed") return tell(vitis::ai::FaceFeature::create(name)->run_fixed(image));
  if (kind == "tfssd") return answer<vitis::ai::TFSSD>(name, image);
  if (kind == "yolov4") return answer<vitis::ai::YOLOv4>(name, image);
  if (kind == "yolov6") return answer<vitis::ai::YOLOv6>(name, image);
  if (kind == "yolov7") return answer<vitis::ai::YOLOv7>(name, image);
  if (kind == "yolov8") return answer<vitis::ai::YOLOv8>(name, image);
  throw std::invalid_argument("there is no task " + kind);
}

}  // namespace

int main(int, char* argv[]) {
  return status_of([&] {
    run(argv[1], argv[2], cv::imread(argv[3]));
    return 0;
  });
}
