// SPDX-License-Identifier: Apache-2.0
// Main functions of programs that show what a model finds in pictures or videos.
#pragma once

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <opencv2/core.hpp>
#include <opencv2/highgui.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <opencv2/imgproc/types_c.h>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "UniLog/UniLog.hpp"
#include "vitis/ai/demo_threads.hpp"
#include "vitis/ai/env_config.hpp"

DEF_ENV_PARAM(SAMPLES_ENABLE_BATCH, "1")
DEF_ENV_PARAM(SAMPLES_BATCH_NUM, "0")

// Where the windows of channels go; taken by programs for several channels.
inline std::vector<cv::Rect>& gui_layout() {
  static std::vector<cv::Rect> rects;
  return rects;
}
inline cv::Mat& gui_background() {
  static cv::Mat image;
  return image;
}

namespace vitis {
namespace ai {

// Models that do nothing, and what is done with their results.
struct VideoByPass {
  int run(const cv::Mat&) { return 0; }
};
inline cv::Mat process_none(cv::Mat image, int, bool) { return image; }

// A model's answers for pictures: runs it on each and writes what process_result makes of it into
// the current folder as NUMBER_NAME_result.jpg; with SAMPLES_ENABLE_BATCH=0 beside the picture as
// NAME_result.jpg. SAMPLES_BATCH_NUM takes the first pictures only. Arguments before start_pos are
// the program's own.
template <typename FactoryMethod, typename ProcessResult>
int main_for_jpeg_demo(int argc, char* argv[], const FactoryMethod& factory_method,
                       const ProcessResult& process_result, int start_pos = 1) {
  std::vector<std::filesystem::path> files(argv + std::min(start_pos, argc), argv + argc);
  if (files.empty()) {
    std::cout << "usage : " << argv[0] << " <img_url> [<img_url> ...]" << std::endl;
    std::exit(1);
  }
  const auto limit = static_cast<std::size_t>(ENV_PARAM(SAMPLES_BATCH_NUM));
  if (limit > 0 && files.size() > limit) files.resize(limit);
  auto model = factory_method();
  for (std::size_t i = 0; i < files.size(); ++i) {
    auto image = cv::imread(files[i].string());
    if (image.empty()) {
      std::cerr << "[VAILIB_DEMO_IMAGE_LOAD_ERROR] cannot read " << files[i].string() << std::endl;
      return 1;
    }
    auto result = model->run(image);
    const auto stem = files[i].stem().string() + "_result.jpg";
    auto target = files[i].parent_path() / stem;
    if (ENV_PARAM(SAMPLES_ENABLE_BATCH)) {
      std::cerr << "batch: " << i << "     image: " << files[i].filename().string() << std::endl;
      target = std::to_string(i) + "_" + stem;
    }
    cv::imwrite(target.string(), process_result(image, result, true));
    std::cout << std::endl;
  }
  return 0;
}

// Whether process_result takes a picture and what the model says of it; else it takes lists.
template <typename Model, typename ProcessResult, typename = void>
struct TakesOnePicture : std::false_type {};
template <typename Model, typename ProcessResult>
struct TakesOnePicture<
    Model, ProcessResult,
    std::void_t<decltype(std::declval<const ProcessResult&>()(
        std::declval<cv::Mat&>(),
        std::declval<std::decay_t<decltype(std::declval<Model&>().run(std::declval<cv::Mat&>()))>&>(),
        false))>> : std::true_type {};

template <typename Model, typename ProcessResult>
class DpuFilter : public Filter {
 public:
  DpuFilter(std::unique_ptr<Model>&& model, const ProcessResult& process_result)
      : model_(std::move(model)), process_result_(process_result) {}
  cv::Mat run(cv::Mat& image) override {
    if constexpr (TakesOnePicture<Model, ProcessResult>::value) {
      auto result = model_->run(image);  // programs may take it to change it
      return process_result_(image, result, false);
    } else {
      std::vector<cv::Mat> images{image};
      auto results = model_->run(images);
      return process_result_(images, results, false).at(0);
    }
  }

 private:
  std::unique_ptr<Model> model_;
  std::decay_t<ProcessResult> process_result_;
};

template <typename FactoryMethod, typename ProcessResult>
std::unique_ptr<Filter> create_dpu_filter(const FactoryMethod& factory_method,
                                          const ProcessResult& process_result) {
  using Model = typename decltype(factory_method())::element_type;
  return std::make_unique<DpuFilter<Model, ProcessResult>>(factory_method(), process_result);
}

// Runs all threads until Esc, Ctrl-C, or one has failed; what main() returns.
inline int run_all_threads() {
  std::signal(SIGINT, MyThread::signal_handler);
  const auto shown = GuiThread::instance();
  MyThread::start_all();
  shown->wait();
  MyThread::stop_all();
  MyThread::wait_all();
  return MyThread::failed() ? 1 : 0;
}

// Shows several videos or cameras at once, each with a filter of its own: -t THREADS for each, and
// their names; repeated where there are fewer than filters.
inline int main_for_video_demo_multiple_channel(
    int argc, char* argv[], const std::vector<std::function<std::unique_ptr<Filter>()>>& filters,
    int start_pos = 1) {
  parse_opt(argc, argv, start_pos);
  const auto shown = GuiThread::instance();
  std::vector<Channel> channels;
  for (std::size_t i = 0; i < filters.size(); ++i) {
    channels.emplace_back(i, g_avi_file[i % g_avi_file.size()], filters[i],
                          g_num_of_threads[i % g_num_of_threads.size()]);
  }
  return run_all_threads();
}

// Shows a video or a camera: -t THREADS, its name, or a camera's number. Videos begin anew until
// Esc is hit or the program is interrupted. With DEMO_USE_VIDEO_WRITER=1 frames go to the GStreamer
// pipeline DEMO_VIDEO_WRITER instead of a window.
template <typename FactoryMethod, typename ProcessResult>
int main_for_video_demo(int argc, char* argv[], const FactoryMethod& factory_method,
                        const ProcessResult& process_result, int start_pos = 1) {
  return main_for_video_demo_multiple_channel(
      argc, argv, {[&] { return create_dpu_filter(factory_method, process_result); }}, start_pos);
}

}  // namespace ai
}  // namespace vitis
