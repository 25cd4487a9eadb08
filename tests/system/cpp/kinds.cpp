// SPDX-License-Identifier: Apache-2.0
// The four kinds of samples, for all tasks that take images: compiled, not run. As in the library,
// a program has threads for videos, or with ACCURACY those for lists of pictures.
#include <functional>
#include <opencv2/opencv.hpp>
#include <string>

#ifdef ACCURACY
#include "vitis/ai/demo_accuracy.hpp"
#else
#include "vitis/ai/demo.hpp"
#endif
#include "vitis/ai/bcc.hpp"
#include "vitis/ai/benchmark.hpp"
#include "vitis/ai/classification.hpp"
#include "vitis/ai/efficientdet_d2.hpp"
#include "vitis/ai/facedetect.hpp"
#include "vitis/ai/facedetectrecog.hpp"
#include "vitis/ai/facefeature.hpp"
#include "vitis/ai/facelandmark.hpp"
#include "vitis/ai/facequality5pt.hpp"
#include "vitis/ai/fairmot.hpp"
#include "vitis/ai/fcos.hpp"
#include "vitis/ai/hourglass.hpp"
#include "vitis/ai/lanedetect.hpp"
#include "vitis/ai/medicaldetection.hpp"
#include "vitis/ai/medicalsegcell.hpp"
#include "vitis/ai/medicalsegmentation.hpp"
#include "vitis/ai/monodepth2.hpp"
#include "vitis/ai/movenet.hpp"
#include "vitis/ai/multitask.hpp"
#include "vitis/ai/multitaskv3.hpp"
#include "vitis/ai/ocr.hpp"
#include "vitis/ai/ofa_yolo.hpp"
#include "vitis/ai/openpose.hpp"
#include "vitis/ai/platedetect.hpp"
#include "vitis/ai/platenum.hpp"
#include "vitis/ai/pmg.hpp"
#include "vitis/ai/polypsegmentation.hpp"
#include "vitis/ai/posedetect.hpp"
#include "vitis/ai/rcan.hpp"
#include "vitis/ai/refinedet.hpp"
#include "vitis/ai/reid.hpp"
#include "vitis/ai/retinaface.hpp"
#include "vitis/ai/retinanet.hpp"
#include "vitis/ai/segmentation.hpp"
#include "vitis/ai/solo.hpp"
#include "vitis/ai/ssd.hpp"
#include "vitis/ai/textmountain.hpp"
#include "vitis/ai/tfssd.hpp"
#include "vitis/ai/ultrafast.hpp"
#include "vitis/ai/vehicleclassification.hpp"
#include "vitis/ai/yolov2.hpp"
#include "vitis/ai/yolov3.hpp"
#include "vitis/ai/yolov4.hpp"
#include "vitis/ai/yolov6.hpp"
#include "vitis/ai/yolov7.hpp"
#include "vitis/ai/yolov8.hpp"
#include "vitis/ai/yolovx.hpp"

namespace {

using namespace vitis::ai;

template <typename Task>
int run(const std::string& kind, int argc, char* argv[]) {
  const auto made = [model = std::string(argv[1])] { return Task::create(model, true); };
  if (kind == "performance") return main_for_performance(argc, argv, made);
#ifdef ACCURACY
  return main_for_accuracy_demo(argc, argv, made, std::make_shared<AccThread>(), 2);
#else
  using Result = decltype(made()->run(cv::Mat()));
  const auto drawn = [](cv::Mat& image, Result&, bool) -> cv::Mat { return image; };
  if (kind == "jpeg") return main_for_jpeg_demo(argc, argv, made, drawn, 2);
  return main_for_video_demo(argc, argv, made, drawn, 2);
#endif
}

template <typename... Tasks>
int run_all(int argc, char* argv[]) {
  const std::string kind = argv[0];
  int sum = 0;
  for (const auto& one : std::vector<std::function<int()>>{
           [&] { return run<Tasks>(kind, argc, argv); }...}) {
    sum += one();
  }
  return sum;
}

}  // namespace

int main(int argc, char* argv[]) {
  return run_all<
      BCC, Classification, EfficientDetD2, FaceDetect, FaceDetectRecog, FaceFeature, FaceLandmark, FaceQuality5pt,
      FairMot, FCOS, Hourglass, RoadLine, MedicalDetection, MedicalSegcell, MedicalSegmentation,
      Monodepth2, Movenet, MultiTask8UC1, MultiTask8UC3, MultiTaskv38UC1, MultiTaskv38UC3, OCR,
      OFAYOLO, OpenPose, PlateDetect, PlateNum, PMG, PolypSegmentation, PoseDetect, Rcan, RefineDet,
      Reid, RetinaFace, RetinaNet, Segmentation8UC1, Segmentation8UC3, Solo, SSD, TextMountain,
      TFSSD, UltraFast, VehicleClassification, YOLOv2, YOLOv3, YOLOv4, YOLOv6, YOLOv7, YOLOv8,
      YOLOvX>(argc, argv);
}
