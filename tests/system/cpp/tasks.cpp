// SPDX-License-Identifier: Apache-2.0
// What tasks of the AI Library find in a picture: tasks KIND MODEL PICTURE..., a line a finding.
#include <google/protobuf/text_format.h>
#include <xrt.h>
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <opencv2/imgcodecs.hpp>
#include <sstream>

#include "status.hpp"
#include "vitis/ai/benchmark.hpp"
#include "vitis/ai/classification.hpp"
#include "vitis/ai/demo.hpp"
#include "vitis/ai/facedetect.hpp"
#include "vitis/ai/facelandmark.hpp"
#include "vitis/ai/globalavepool.hpp"
#include "vitis/ai/image_util.hpp"
#include "vitis/ai/math.hpp"
#include "vitis/ai/segmentation.hpp"
#include "vitis/ai/ssd.hpp"
#include "vitis/ai/yolov2.hpp"
#include "vitis/ai/yolov3.hpp"
#include "vitis/ai/yolov4.hpp"
#include "vitis/ai/yolovx.hpp"

namespace {

template <typename Result>
void tell(const Result& result) {
  std::printf("size %d %d\n", result.width, result.height);
  for (const auto& box : result.bboxes) {
    std::printf("%d %.9g %.9g %.9g %.9g %.9g\n", box.label, box.score, box.x, box.y, box.width,
                box.height);
  }
}

void tell(const vitis::ai::FaceDetectResult& result) {
  std::printf("size %d %d\n", result.width, result.height);
  for (const auto& box : result.rects) {
    std::printf("0 %.9g %.9g %.9g %.9g %.9g\n", box.score, box.x, box.y, box.width, box.height);
  }
}

void tell(const vitis::ai::YOLOvXResult& result) {
  for (const auto& box : result.bboxes) {
    std::printf("%d %.9g %.9g %.9g %.9g %.9g\n", box.label, box.score, box.box.at(0),
                box.box.at(1), box.box.at(2), box.box.at(3));
  }
}

void tell(const vitis::ai::FaceLandmarkResult& result) {
  for (const auto& point : result.points) std::printf("%.9g %.9g\n", point.first, point.second);
}

void tell(vitis::ai::ClassificationResult result) {
  std::printf("size %d %d\n", result.width, result.height);
  for (const auto& score : result.scores) {
    std::printf("%d %.9g %s\n", score.index, score.score, result.lookup(score.index));
  }
}

void tell(const vitis::ai::SegmentationResult& result) {
  std::printf("size %d %d\n", result.width, result.height);
  const auto values = result.segmentation.reshape(1);
  for (int row = 0; row < values.rows; ++row) {
    for (int i = 0; i < values.cols; ++i) std::printf("%d ", values.at<std::uint8_t>(row, i));
    std::printf("\n");
  }
}

// Inputs in memory from XRT, the elements of a file in each; told as for pictures. Alternatively what
// is refused.
template <typename Create>
void in_memory(Create create, const char* file) {
  auto model = create();
  xrt::device device(0);
  xrt::bo bo(device, static_cast<std::size_t>(model->get_input_buffer_size()), 0);
  std::ifstream elements(file, std::ios::binary);
  elements.read(bo.map<char*>() + model->get_input_offset(),
                static_cast<std::streamsize>(bo.size() - model->get_input_offset()));
  const auto handle = xclOpen(0, nullptr, XCL_QUIET);
  const vart::xrt_bo_t input{&device, &bo};
  const vart::xrt_bo_t numbered{handle, xclAllocUserPtrBO(handle, bo.map(), bo.size(), 0)};
  const auto results = model->run(std::vector<vart::xrt_bo_t>{input, numbered});
  xclClose(handle);
  if (results.size() != 2) throw std::runtime_error("two inputs give two results");
  tell(results[1]);
}

void refused(const std::string& name) {
  auto task = vitis::ai::DpuTask::create(name);
  xrt::device device(0);
  xrt::bo small(device, 1, 0);
  const vart::xrt_bo_t input{&device, &small};
  for (const auto& bos : {std::vector<vart::xrt_bo_t>{}, {input, input}, {input}}) {
    try {
      task->run_with_xrt_bo(bos);
    } catch (const std::exception& error) {
      std::printf("%s\n", error.what());
    }
  }
}

// One picture is told; several give as many results.
template <typename Create>
void answer(Create create, const cv::Mat& image) {
  auto model = create();
  tell(model->run(image));
  const std::vector<cv::Mat> images(2, image);
  if (model->run(images).size() != 2) throw std::runtime_error("two pictures give two results");
}

// As programs do that have only a task: a configuration in the program, pictures set by hand.
void by_hand(const std::string& name, const cv::Mat& image) {
  auto task = vitis::ai::DpuTask::create(name);
  std::ifstream file(name.substr(0, name.rfind('.')) + ".prototxt");
  std::ostringstream text;
  text << file.rdbuf();
  vitis::ai::proto::DpuModelParamList models;
  if (!google::protobuf::TextFormat::ParseFromString(text.str(), &models)) throw 1;
  const auto& config = models.model(0);
  const auto& kernel = config.kernel(0);
  task->setMeanScaleBGR({kernel.mean().begin(), kernel.mean().end()},
                        {kernel.scale().begin(), kernel.scale().end()});
  task->setImageRGB(std::vector<cv::Mat>{image});
  task->run(0u);
  const auto inputs = task->getInputTensor(0u);
  for (const auto& result :
       vitis::ai::yolov3_post_process(inputs, task->getOutputTensor(0u), config,
                                      std::vector<int>{image.cols}, std::vector<int>{image.rows})) {
    tell(result);
  }
}

cv::Mat marked(cv::Mat& image, vitis::ai::YOLOv3Result& result, bool is_jpeg) {
  std::printf("boxes %zu %d\n", result.bboxes.size(), is_jpeg);
  return image;
}

// Functions on outputs: an average over 2x2x3 values, softmax of two rows, cells of 2x2 tiles.
void functions() {
  const std::int8_t values[] = {1, -2, 127, 2, -3, 127, 4, -4, 127, 4, 0, 127};
  std::int8_t means[3], tiles[12];
  vitis::ai::globalAvePool(values, 3, 2, 2, means, 2);
  vitis::ai::tiling(values, 1, 1, 2, 3, tiles);
  float shares[12];
  vitis::ai::softmax(values, 0.25f, 2, 2, shares);
  for (const auto mean : means) std::printf("%d ", mean);
  for (const auto tile : tiles) std::printf("%d ", tile);
  for (int i = 0; i < 4; ++i) std::printf("%.9g ", shares[i]);
  // Rows of the second one are eight bytes apart, of which six count.
  const std::uint8_t pixels[] = {10, 20, 30, 40, 50, 60, 0, 0, 70, 80, 90, 100, 200, 255, 0, 0};
  const cv::Mat image(2, 2, CV_8UC3, const_cast<std::uint8_t*>(pixels), 8);
  const std::vector<float> mean = {11, 22, 33}, scale = {0.75f, -0.5f, 1.5f};
  std::int8_t plain[12], turned[12];
  vitis::ai::NormalizeInputData(image, mean, scale, plain);
  vitis::ai::NormalizeInputDataRGB(pixels, 2, 2, 3, 8, mean, scale, turned);
  for (const auto value : plain) std::printf("%d ", value);
  for (const auto value : turned) std::printf("%d ", value);
  try {
    vitis::ai::NormalizeInputData(image, {1, 2}, scale, plain);
  } catch (const std::invalid_argument& error) {
    std::printf("%s", error.what());
  }
}

int run(const std::string& kind, const std::string& name, int argc, char* argv[]) {
  const auto yolo = [&] { return vitis::ai::YOLOv3::create(name); };
  if (kind == "functions") return functions(), 0;
  if (kind == "demo") return vitis::ai::main_for_jpeg_demo(argc, argv, yolo, marked, 3);
  if (kind == "speed") return vitis::ai::main_for_performance(argc - 2, argv + 2, yolo);
  if (kind == "refused") return refused(name), 0;
  if (kind == "bo faces") in_memory([&] { return vitis::ai::FaceDetect::create(name); }, argv[3]);
  if (kind == "bo yolov3") in_memory(yolo, argv[3]);
  if (kind == "bo yolov4") in_memory([&] { return vitis::ai::YOLOv4::create(name); }, argv[3]);
  if (kind == "bo ssd") in_memory([&] { return vitis::ai::SSD::create(name); }, argv[3]);
  if (kind == "bo classes") {
    in_memory([&] { return vitis::ai::Classification::create(name); }, argv[3]);
  }
  const auto image = cv::imread(argv[3]);
  if (kind == "yolov3") answer(yolo, image);
  if (kind == "task") by_hand(name, image);
  if (kind == "yolov2") answer([&] { return vitis::ai::YOLOv2::create(name); }, image);
  if (kind == "yolovx") answer([&] { return vitis::ai::YOLOvX::create(name); }, image);
  if (kind == "points") answer([&] { return vitis::ai::FaceLandmark::create(name); }, image);
  if (kind == "ssd") answer([&] { return vitis::ai::SSD::create(name); }, image);
  if (kind == "faces") answer([&] { return vitis::ai::FaceDetect::create(name); }, image);
  if (kind == "classes") answer([&] { return vitis::ai::Classification::create(name); }, image);
  if (kind == "pixels") answer([&] { return vitis::ai::Segmentation8UC1::create(name); }, image);
  if (kind == "colours") answer([&] { return vitis::ai::Segmentation8UC3::create(name); }, image);
  return 0;
}

}  // namespace

int main(int argc, char* argv[]) {
  return status_of([&] { return run(argv[1], argv[2], argc, argv); });
}
