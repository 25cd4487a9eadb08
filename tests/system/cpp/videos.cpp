// SPDX-License-Identifier: Apache-2.0
// Programs with videos: what they show is printed, as channel and first pixel, until so many
// frames were shown.
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <stdexcept>
#include <string>

#include "vitis/ai/demo.hpp"
#include "vitis/ai/demo2.hpp"
#include "vitis/ai/demo3.hpp"
#include "vitis/ai/demo4.hpp"
#include "vitis/ai/demo5.hpp"
#include "vitis/ai/demo_b1.hpp"
#include "vitis/ai/demo_bx.hpp"
#include "vitis/ai/max_index.hpp"

// In place of windows.
namespace cv {
static int left = 12;
void imshow(const String& name, InputArray image) {
  std::cout << name << " " << static_cast<int>(image.getMat().at<Vec3b>(0, 0)[0]) << std::endl;
}
int waitKey(int) { return --left > 0 ? -1 : 27; }
}  // namespace cv

namespace {

using namespace vitis::ai;

// Says how many pixels an image has.
struct Model {
  int run(const cv::Mat& image) {
    if (image.cols == 7) throw std::runtime_error("this picture is seven wide");
    return static_cast<int>(image.total());
  }
  std::vector<int> run(const std::vector<cv::Mat>& images) {
    std::vector<int> found;
    for (const auto& image : images) found.push_back(run(image));
    return found;
  }
};

// As programs write them that have lists only.
struct Lists {
  std::vector<std::string> run(const std::vector<cv::Mat>& images) {
    return std::vector<std::string>(images.size(), "list");
  }
};

cv::Mat one(cv::Mat& image, const int& found, bool) {
  image.at<cv::Vec3b>(0, 0)[0] += found == static_cast<int>(image.total()) ? 100 : 0;
  return image;
}
std::vector<cv::Mat> list(std::vector<cv::Mat>& images, const std::vector<std::string>& found,
                          bool) {
  images.at(0).at<cv::Vec3b>(0, 0)[0] += found.at(0) == "list" ? 150 : 0;
  return images;
}
std::vector<cv::Mat> list_of(std::vector<cv::Mat>& images, std::vector<int> found, bool) {
  images.at(0).at<cv::Vec3b>(0, 0)[0] += found.at(0) > 0 ? 200 : 0;
  return images;
}

std::unique_ptr<Filter> filter_one() {
  return create_dpu_filter([] { return std::make_unique<Model>(); }, one);
}
std::unique_ptr<Filter> filter_list() {
  return create_dpu_filter([] { return std::make_unique<Lists>(); }, list);
}
std::unique_ptr<Filter> filter_list_of() {
  return create_dpu_filter([] { return std::make_unique<Model>(); }, list_of);
}

// Leaves every third frame out, after a look at it.
class Thinning : public MyThread {
 public:
  Thinning(queue_t* in, queue_t* out) : in_(in), out_(out) {}
  int run() override {
    FrameInfo frame;
    if (!in_->top(frame, std::chrono::milliseconds(100))) return 0;
    FrameInfo same;
    if (!in_->pop(same, std::chrono::milliseconds(100)) || same.frame_id != frame.frame_id) {
      throw std::runtime_error("another frame was taken");
    }
    if (frame.frame_id % 3 == 0) return 0;
    while (!out_->push(frame, std::chrono::milliseconds(100))) {
      if (is_stopped()) return -1;
    }
    return 0;
  }
  std::string name() override { return "Thinning"; }

 private:
  queue_t* in_;
  queue_t* out_;
};

int own_threads(const std::string& video) {
  std::signal(SIGINT, MyThread::signal_handler);
  const auto read = std::make_unique<queue_t>(5);
  const auto thinned = std::make_unique<queue_t>(5);
  const auto changed = std::make_unique<queue_t>(5);
  DecodeThread decoding{3, video, read.get()};
  Thinning thinning{read.get(), thinned.get()};
  DpuThread changing(filter_one(), thinned.get(), changed.get(), "0");
  const auto gui = GuiThread::instance();
  SortingThread sorting(changed.get(), gui->getQueue(), "0");
  MyThread::start_all();
  gui->wait();
  MyThread::stop_all();
  MyThread::wait_all();
  return MyThread::failed() ? 1 : 0;
}

}  // namespace

int main(int argc, char* argv[]) {
  const std::string kind = argv[1];
  std::int8_t scores[] = {1, 5, -3, 7, 7, 2};
  if (max_index(scores, 2, 1, 3) != std::vector<std::uint8_t>{1, 0}) return 2;
  gui_layout() = {{0, 0, 8, 8}};
  const auto make = [] { return std::make_unique<Model>(); };
  if (kind == "one") return main_for_video_demo(argc, argv, make, one, 2);
  if (kind == "own") return own_threads(argv[2]);
  --argc;
  ++argv;
  if (kind == "several") {
    return main_for_video_demo_multiple_channel(argc, argv,
                                                {filter_one, filter_list, filter_list_of});
  }
  if (kind == "batch") return main_for_video_demo_batch(argc, argv, {filter_list_of});
  if (kind == "named") {
    return main_for_video_demo_multiple_channel(
        argc, argv,
        {DpuFilterDesciption{"ones", filter_one, 2}, DpuFilterDesciption{"lists", filter_list, 1}});
  }
  return 3;
}
