// SPDX-License-Identifier: Apache-2.0
// A program as the samples that write down what a model finds: accuracy MODEL LIST FILE [-t N].
// MODE=exit ends the process from a thread when the last result is there, MODE=raw reads gray bytes.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <opencv2/core.hpp>
#include <string>

#include "status.hpp"
#include "vitis/ai/classification.hpp"
#include "vitis/ai/demo_accuracy.hpp"

extern int GLOBAL_ENABLE_C_SOFTMAX;
extern int GLOBAL_ENABLE_ROUND_SETINPUT;

namespace vitis {
namespace ai {
namespace {

std::string mode() {
  const char* given = std::getenv("MODE");
  return given ? given : "";
}

// Gray images of 32 x 48 bytes.
struct RawImages : public ReadImagesThread {
  RawImages() : ReadImagesThread("", nullptr) {}

  int run() override {
    std::ifstream list(images_list_file_);
    for (std::string line; std::getline(list, line);) {
      cv::Mat gray(32, 48, CV_8UC1), image;
      std::ifstream(line, std::ios::binary).read(reinterpret_cast<char*>(gray.data), 32 * 48);
      cv::cvtColor(gray, image, cv::COLOR_GRAY2BGR);
      while (!queue_->push(FrameInfo{++frame_id_, image, get_single_name(line), 48, 32},
                           std::chrono::milliseconds(500))) {
        --frame_id_;
        if (is_stopped()) return -1;
      }
      if (ENV_PARAM(DEBUG_DEMO)) std::cout << name() << " " << frame_id_ << std::endl;
    }
    g_last_frame_id = frame_id_;
    return -1;
  }
};

struct Written : public AccThread {
  explicit Written(const std::string& path) : file(path) { dpu_result.frame_id = -1; }

  static std::shared_ptr<Written> instance(const std::string& path) {
    return std::make_shared<Written>(path);
  }

  int run() override {
    if (g_last_frame_id == int(dpu_result.frame_id)) {
      file.close();
      if (mode() == "exit") std::exit(0);
      return -1;
    }
    if (queue_->pop(dpu_result, std::chrono::milliseconds(1000))) {
      const auto* result = static_cast<ClassificationResult*>(dpu_result.result_ptr.get());
      file << dpu_result.frame_id << " " << dpu_result.single_name << " " << dpu_result.w << " "
           << dpu_result.h;
      for (const auto& score : result->scores) file << " " << score.index << " " << score.score;
      file << "\n";
    }
    return is_stopped() ? -1 : 0;
  }

  DpuResultInfo dpu_result;
  std::ofstream file;
};

}  // namespace
}  // namespace ai
}  // namespace vitis

int main(int argc, char* argv[]) {
  GLOBAL_ENABLE_C_SOFTMAX = 2;
  GLOBAL_ENABLE_ROUND_SETINPUT = std::getenv("ROUND") != nullptr;
  const std::string model = argv[1];
  return status_of([&] {
    return vitis::ai::main_for_accuracy_demo(
        argc, argv, [model] { return vitis::ai::Classification::create(model); },
        vitis::ai::Written::instance(argv[3]), 2,
        vitis::ai::mode() == "raw" ? std::make_shared<vitis::ai::RawImages>() : nullptr);
  });
}
