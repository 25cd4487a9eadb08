// SPDX-License-Identifier: Apache-2.0
// Places of elements in memory: DimCalc({1, 2, 3}).offset({0, 1, 2}) is 5, index(5) is {0, 1, 2}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace vitis {
namespace ai {

class DimCalc {
 public:
  DimCalc() = delete;
  explicit DimCalc(const std::vector<std::size_t>& dims) : DimCalc(dims, dense(dims)) {}
  explicit DimCalc(const std::vector<std::int32_t>& dims)
      : DimCalc(std::vector<std::size_t>(dims.begin(), dims.end())) {}
  // Strides are those of memory, counted in elements.
  DimCalc(const std::vector<std::size_t>& dims, const std::vector<std::size_t>& strides)
      : dims_(dims), strides_(strides), non_id_(gap(dims, strides)) {}

  std::size_t offset(const std::vector<std::size_t>& idx) const {
    std::size_t sum = 0;
    for (std::size_t axis = 0; axis < idx.size(); ++axis) sum += idx[axis] * strides_[axis];
    return sum;
  }
  std::size_t offset(const std::vector<int>& idx) const {
    return offset(std::vector<std::size_t>(idx.begin(), idx.end()));
  }

  // Which element is at an offset.
  std::vector<int> index(std::size_t offset) const {
    std::vector<int> idx;
    for (const std::size_t stride : strides_) {
      idx.push_back(static_cast<int>(offset / stride));
      offset %= stride;
    }
    return idx;
  }

  // How many elements lie side by side from one on, and the index of the first behind them; no
  // elements for an index that is out of range.
  std::pair<std::vector<std::size_t>, std::size_t> next(const std::vector<std::size_t>& idx) const {
    for (std::size_t axis = 0; axis < dims_.size(); ++axis) {
      if (idx[axis] >= dims_[axis]) return {idx, 0};
    }
    const std::size_t first = static_cast<std::size_t>(non_id_ + 1);  // axis of what is dense
    if (first >= dims_.size()) return {after(idx, dims_.size()), 1};
    auto begin = idx;
    for (std::size_t axis = first; axis < begin.size(); ++axis) begin[axis] = 0;
    const std::size_t run = strides_[first] * dims_[first];
    return {after(begin, first), run - (offset(idx) - offset(begin))};
  }

  const std::vector<std::size_t> dims_;
  const std::vector<std::size_t> strides_;
  const int non_id_;  // the last axis behind which there are gaps; -1 without any

 private:
  static std::vector<std::size_t> dense(const std::vector<std::size_t>& dims) {
    std::vector<std::size_t> strides(dims.size(), 1);
    for (std::size_t axis = dims.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * dims[axis];
    return strides;
  }

  static int gap(const std::vector<std::size_t>& dims, const std::vector<std::size_t>& strides) {
    std::size_t wanted = 1;
    for (std::size_t axis = dims.size(); axis-- > 0;) {
      if (strides[axis] != wanted) return static_cast<int>(axis);
      wanted = strides[axis] * dims[axis];
    }
    return -1;
  }

  // One step along the axis in front of `end`, and carries; axis 0 may run out of range.
  std::vector<std::size_t> after(std::vector<std::size_t> idx, std::size_t end) const {
    if (end == 0) {
      idx[0] = dims_[0];
      return idx;
    }
    for (std::size_t axis = end; axis-- > 0;) {
      if (++idx[axis] < dims_[axis] || axis == 0) break;
      idx[axis] = 0;
    }
    return idx;
  }
};

}  // namespace ai
}  // namespace vitis
