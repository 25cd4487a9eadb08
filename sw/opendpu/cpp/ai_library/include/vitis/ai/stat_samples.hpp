// SPDX-License-Identifier: Apache-2.0
// Mean and deviation of numbers, for programs that measure times.
#pragma once

#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace vitis {
namespace ai {

class StatSamples {
 public:
  explicit StatSamples(std::size_t capacity) { reserve(capacity); }
  StatSamples(StatSamples&&) = default;
  StatSamples(const StatSamples&) = delete;
  StatSamples& operator=(const StatSamples&) = delete;
  virtual ~StatSamples() = default;

  void reserve(std::size_t capacity) { values_.reserve(capacity); }
  void addSample(int value) { values_.push_back(value); }
  // Those of another one, too.
  void merge(StatSamples& other) {
    values_.insert(values_.end(), other.values_.begin(), other.values_.end());
  }

  // NaN where there are none.
  double getMean() {
    return std::accumulate(values_.begin(), values_.end(), 0.0) /
           static_cast<double>(values_.size());
  }
  double getStdVar(const double mean) {
    double sum = 0;
    for (const int value : values_) sum += (value - mean) * (value - mean);
    return std::sqrt(sum / static_cast<double>(values_.size()));
  }

 private:
  std::vector<int> values_;
};

}  // namespace ai
}  // namespace vitis
