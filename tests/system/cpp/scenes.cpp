// SPDX-License-Identifier: Apache-2.0
// What tasks of the AI Library for crowds, distances, products, medicine and objects find: scenes KIND
// MODEL PICTURE.
#include <cstdio>
#include <opencv2/imgcodecs.hpp>

#include "status.hpp"
#include "vitis/ai/bcc.hpp"
#include "vitis/ai/covid19segmentation.hpp"
#include "vitis/ai/fairmot.hpp"
#include "vitis/ai/fcos.hpp"
#include "vitis/ai/medicaldetection.hpp"
#include "vitis/ai/medicalsegcell.hpp"
#include "vitis/ai/monodepth2.hpp"
#include "vitis/ai/pmg.hpp"
#include "vitis/ai/polypsegmentation.hpp"
#include "vitis/ai/retinanet.hpp"

namespace {

using namespace vitis::ai;

void tell_pixels(const cv::Mat& image) {
  cv::Mat values;
  image.reshape(1).convertTo(values, CV_32F);
  for (int row = 0; row < values.rows; ++row) {
    for (int i = 0; i < values.cols; ++i) std::printf("%.9g ", values.at<float>(row, i));
    std::printf("\n");
  }
}

void tell_box(int label, float score, float a, float b, float c, float d) {
  std::printf("%d %.9g %.9g %.9g %.9g %.9g\n", label, score, a, b, c, d);
}

void size(int width, int height) { std::printf("size %d %d\n", width, height); }

void tell(const BCCResult& result) {
  size(result.width, result.height);
  std::printf("%d\n", result.count);
}

void tell(const PMGResult& result) {
  size(result.width, result.height);
  std::printf("%d\n", result.classidx);
}

void tell(const Monodepth2Result& result) {
  size(result.width, result.height);
  tell_pixels(result.mat);
}

void tell(const MedicalSegcellResult& result) {
  size(result.width, result.height);
  tell_pixels(result.segmentation);
}

void tell(const SegmentationResult& result) {
  size(result.width, result.height);
  tell_pixels(result.segmentation);
}

void tell(const Covid19SegmentationResult& result) {
  size(result.width, result.height);
  tell_pixels(result.positive_classification);
  tell_pixels(result.infected_area_classification);
}

void tell(const FairMotResult& result) {
  size(result.width, result.height);
  for (std::size_t i = 0; i < result.bboxes.size(); ++i) {
    const auto& box = result.bboxes[i];
    tell_box(box.label, box.score, box.x, box.y, box.width, box.height);
    tell_pixels(result.feats.at(i));
  }
}

void tell(const MedicalDetectionResult& result) {
  size(result.width, result.height);
  for (const auto& box : result.bboxes) {
    tell_box(box.label, box.score, box.x, box.y, box.width, box.height);
  }
}

void tell(const FCOSResult& result) {
  for (const auto& [label, score, box] : result.bboxes) {
    tell_box(label, score, box.at(0), box.at(1), box.at(2), box.at(3));
  }
}

void tell(const std::vector<RetinaNetBoundingBox>& boxes) {
  for (const auto& box : boxes) {
    tell_box(static_cast<int>(box.label), box.score, box.x, box.y, box.w, box.h);
  }
}

// One picture is told; several give as many results.
template <typename Task>
void answer(Task& model, const cv::Mat& image) {
  tell(model.run(image));
  if (model.getInputWidth() < 1 || model.getInputHeight() < 1 || model.get_input_batch() != 1) {
    throw std::runtime_error("the input has a size, and one sample");
  }
  const std::vector<cv::Mat> images(2, image);
  if (model.run(images).size() != 2) throw std::runtime_error("two pictures give two results");
}

void run(const std::string& kind, const std::string& name, const cv::Mat& image) {
  if (kind == "bcc") return answer(*BCC::create(name), image);
  if (kind == "pmg") return answer(*PMG::create(name), image);
  if (kind == "depth") return answer(*Monodepth2::create(name), image);
  if (kind == "cells") return answer(*MedicalSegcell::create(name), image);
  if (kind == "polyps") return answer(*PolypSegmentation::create(name), image);
  if (kind == "lungs") return answer(*Covid19Segmentation8UC1::create(name), image);
  if (kind == "colours") return answer(*Covid19Segmentation8UC3::create(name), image);
  if (kind == "fairmot") return answer(*FairMot::create(name), image);
  if (kind == "lesions") return answer(*MedicalDetection::create(name), image);
  if (kind == "fcos") return answer(*FCOS::create(name), image);
  if (kind == "retinanet") return answer(*RetinaNet::create(name), image);
  throw std::invalid_argument("there is no task " + kind);
}

}  // namespace

int main(int, char* argv[]) {
  return status_of([&] {
    run(argv[1], argv[2], cv::imread(argv[3]));
    return 0;
  });
}
