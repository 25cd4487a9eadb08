// SPDX-License-Identifier: Apache-2.0
// FaceDetectRecog, and the same of its parts: the similarity of points in closed form, by complex
// numbers.
#include <cmath>
#include <complex>
#include <iostream>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include "vitis/ai/facedetectrecog.hpp"

namespace {

using Complex = std::complex<double>;
using Points = std::vector<Complex>;

const Points kUpright{{30.2946, 51.6963}, {65.5318, 51.5014}, {48.0252, 71.7366},
                      {33.5493, 92.3655}, {62.7299, 92.2041}};

Complex mean(const Points& points) {
  Complex sum;
  for (const auto& point : points) sum += point;
  return sum / static_cast<double>(points.size());
}

// Factor and offset that take `from` to `to`, in least squares.
std::pair<Complex, Complex> fitted(const Points& from, const Points& to) {
  const auto middle = mean(from), target = mean(to);
  Complex product;
  double square = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    product += std::conj(from[i] - middle) * (to[i] - target);
    square += std::norm(from[i] - middle);
  }
  const auto factor = product / square;
  return {factor, target - factor * middle};
}

// What warpAffine takes, and how far it misses the upright points.
std::pair<cv::Matx23d, double> aligned(const Points& points, bool mirrored) {
  auto from = kUpright;
  if (mirrored) {
    for (auto& point : from) point.real(-point.real());
  }
  const auto [factor, offset] = fitted(from, points);
  const auto back = [&, f = factor, o = offset](Complex point) {
    auto found = (point - o) / f;
    if (mirrored) found.real(-found.real());
    return found;
  };
  double distance = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    distance += std::norm(back(points[i]) - kUpright[i]);
  }
  const auto origin = back(0), x = back(1) - origin, y = back({0, 1}) - origin;
  return {{x.real(), y.real(), origin.real(), x.imag(), y.imag(), origin.imag()}, distance};
}

void print(const std::string& label, const vitis::ai::FaceDetectResult::BoundingBox& box,
           const std::int8_t* feature) {
  std::cout << label << " " << box.x << " " << box.y << " " << box.score;
  for (int i = 0; i < 512; ++i) std::cout << " " << static_cast<int>(feature[i]);
  std::cout << "\n";
}

void by_parts(char* argv[], const cv::Mat& image) {
  auto detect = vitis::ai::FaceDetect::create(argv[1]);
  auto landmark = vitis::ai::FaceLandmark::create(argv[2]);
  auto feature = vitis::ai::FaceFeature::create(argv[3]);
  for (const auto& box : detect->run(image).rects) {
    if (box.x < 0 || box.y < 0 || box.x + box.width > 1 || box.y + box.height > 1) continue;
    const cv::Rect face(static_cast<int>(box.x * image.cols), static_cast<int>(box.y * image.rows),
                        static_cast<int>(box.width * image.cols),
                        static_cast<int>(box.height * image.rows));
    const int dx = static_cast<int>(face.width * 0.2f), dy = static_cast<int>(face.height * 0.2f);
    cv::Rect wide(face.x - dx, face.y - dy, face.width + 2 * dx, face.height + 2 * dy);
    wide &= cv::Rect(0, 0, image.cols, image.rows);
    const cv::Point low(wide.x / 16 * 16, wide.y / 8 * 8);
    const cv::Point high((wide.br().x + 15) / 16 * 16, (wide.br().y + 7) / 8 * 8);
    const cv::Rect part =
        cv::Rect(low, high) & cv::Rect(0, 0, image.cols / 16 * 16, image.rows / 8 * 8);
    const cv::Rect seen = face & part;
    Points points;
    for (const auto& [x, y] : landmark->run(image(seen)).points) {
      points.emplace_back(x * seen.width + seen.x - part.x, y * seen.height + seen.y - part.y);
    }
    const auto turned = aligned(points, false), mirrored = aligned(points, true);
    const bool best = mirrored.second < turned.second;
    cv::Mat upright;
    cv::warpAffine(image(part), upright, best ? mirrored.first : turned.first,
                   cv::Size(feature->getInputWidth(), feature->getInputHeight()));
    print(best ? "mirrored" : "turned", box, feature->run_fixed(upright).feature->data());
  }
}

}  // namespace

int main(int argc, char* argv[]) {
  const auto image = cv::imread(argv[argc - 1]);
  try {
    auto task = argc == 3 ? vitis::ai::FaceDetectRecog::create(argv[1])
                          : vitis::ai::FaceDetectRecog::create(argv[1], argv[2], argv[3], true);
    const auto result = task->run_fixed(image);
    const auto reals = task->run(std::vector<cv::Mat>{image, image}).at(1);
    std::cout << result.width << " " << result.height << " " << task->getInputWidth() << " "
              << task->getInputHeight() << " " << result.rects.size() << "\n";
    for (std::size_t i = 0; i < result.rects.size(); ++i) {
      print("found", result.rects[i], result.features.at(i).data());
      for (int j = 0; j < 512; ++j) {
        if (reals.features.at(i)[j] != result.features[i][j] * result.feature_scale) return 4;
      }
    }
    if (argc > 3) by_parts(argv, image);
    task->setThreshold(0.999f);
    std::cout << task->getThreshold() << " " << task->run(image).rects.size() << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 3;
  }
}
