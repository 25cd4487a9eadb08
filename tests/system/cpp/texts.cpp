// SPDX-License-Identifier: Apache-2.0
// What tasks of the AI Library make of text in images, and its tracker: texts KIND ...
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <opencv2/imgcodecs.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "status.hpp"
#include "vitis/ai/ocr.hpp"
#include "vitis/ai/reidtracker.hpp"
#include "vitis/ai/textmountain.hpp"

namespace {

using namespace vitis::ai;

// ocr MODEL IMAGE: each word and its corners.
int ocr(char* argv[]) {
  auto task = OCR::create(argv[2]);
  const auto image = cv::imread(argv[3]);
  const auto result = task->run(image);
  const auto both = task->run(std::vector<cv::Mat>{image, image});
  if (both.size() != 2 || both[1].words != result.words || both[1].box != result.box) return 1;
  std::printf("size %d %d %d %d %zu\n", result.width, result.height, task->getInputWidth(),
              task->getInputHeight(), task->get_input_batch());
  for (std::size_t i = 0; i < result.words.size(); ++i) {
    std::printf("%s", result.words[i].c_str());
    for (const auto& corner : result.box.at(i)) std::printf(" %d %d", corner.x, corner.y);
    std::printf("\n");
  }
  return 0;
}

// mountain MODEL IMAGE: each line's score and corners.
int mountain(char* argv[]) {
  auto task = TextMountain::create(argv[2]);
  const auto image = cv::imread(argv[3]);
  const auto result = task->run(image);
  const auto both = task->run(std::vector<cv::Mat>{image, image});
  if (both.size() != 2 || both[1].res.size() != result.res.size()) return 1;
  std::printf("size %d %d\n", result.width, result.height);
  for (const auto& line : result.res) {
    std::printf("%.9g", line.score);
    for (const auto& corner : line.box) std::printf(" %.9g %.9g", corner.x, corner.y);
    std::printf("\n");
  }
  return 0;
}

// Detections of a frame a line: "x y w h score label FEATURES", with semicolons between them.
std::vector<ReidTracker::InputCharact> detections(const std::string& line) {
  std::vector<ReidTracker::InputCharact> made;
  std::istringstream all(line);
  for (std::string one; std::getline(all, one, ';');) {
    std::istringstream words(one);
    cv::Rect_<float> box;
    float score;
    int label;
    if (!(words >> box.x >> box.y >> box.width >> box.height >> score >> label)) continue;
    std::vector<float> features{std::istream_iterator<float>(words), {}};
    const cv::Mat row = cv::Mat(features).reshape(1, 1).clone();
    made.emplace_back(row, box, score, label, static_cast<int>(made.size()));
  }
  return made;
}

void tell(std::uint64_t frame, const std::vector<ReidTracker::OutputCharact>& objects) {
  for (const auto& [id, box, score, label, local] : objects) {
    std::printf("%lu %lu %.9g %.9g %.9g %.9g %.9g %d %d\n", static_cast<unsigned long>(frame),
                static_cast<unsigned long>(id), box.x, box.y, box.width, box.height, score, label,
                local);
  }
}

// track FILE THREADS: a line a frame; "-" is a frame that nothing is looked for in.
int track(char* argv[]) {
  std::ifstream file(argv[2]);
  const bool several = std::stoi(argv[3]) > 1;
  auto tracker = ReidTracker::create(several ? ReidTracker::MODE_MULTIDETS : 0);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  const auto one = [&](std::size_t i) {
    auto found = detections(lines[i]);
    const auto frame = static_cast<std::uint64_t>(i + 1);
    if (lines[i] == "-") return tell(frame, tracker->patchFrame(frame));
    if (several) {
      tell(frame, tracker->trackWithLock(frame, found, true, false));
    } else {
      tell(frame, tracker->track(frame, found, true, false));
    }
    for (const int id : tracker->GetRemoveID()) std::printf("%zu ended %d\n", i + 1, id);
  };
  if (!several) {
    for (std::size_t i = 0; i < lines.size(); ++i) one(i);
    return 0;
  }
  // All begin before any is tracked; the threads come in the wrong order.
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!tracker->addDetStart(static_cast<int>(i + 1))) return 1;
  }
  if (tracker->addDetStart(1) || tracker->setTrackLock(2, 10)) return 1;
  std::vector<std::thread> threads;
  for (std::size_t i = lines.size(); i-- > 0;) {
    threads.emplace_back([&, i] {
      tracker->setDetEnd(static_cast<int>(i + 1));
      one(i);
    });
  }
  for (auto& thread : threads) thread.join();
  return tracker->releaseTrackLock(1) ? 1 : 0;
}

int run(char* argv[]) {
  const std::string kind = argv[1];
  if (kind == "ocr") return ocr(argv);
  if (kind == "mountain") return mountain(argv);
  if (kind == "track") return track(argv);
  throw std::invalid_argument("there is no task " + kind);
}

}  // namespace

int main(int, char* argv[]) {
  return status_of([&] { return run(argv); });
}
