// SPDX-License-Identifier: Apache-2.0
// Arrays of any number of dimensions, rows first, as SoloResult has them; what programs do with such
// results. Throws std::out_of_range and std::invalid_argument.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iostream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

template <class T>
class Ndarray {
 public:
  std::vector<T> data;
  std::vector<std::size_t> shape;
  std::size_t dim = 0;

  Ndarray() = default;
  Ndarray(const std::vector<T>& init_data, const std::vector<std::size_t>& shapes)
      : data(init_data) {
    reshape(shapes);
  }

  void zeros(const std::vector<std::size_t>& shapes) { fill(shapes, T(0)); }
  void ones(const std::vector<std::size_t>& shapes) { fill(shapes, T(1)); }
  void reshape(const std::vector<std::size_t>& shapes) {
    if (product(shapes) != data.size()) {
      throw std::invalid_argument("an array of " + std::to_string(data.size()) +
                                  " elements cannot have " + std::to_string(product(shapes)));
    }
    shape = shapes;
    dim = shape.size();
  }

  std::size_t size() const { return data.size(); }
  std::size_t get_dim() const { return dim; }
  const T* get_data() const { return data.data(); }
  T* mutable_data() { return data.data(); }
  Ndarray<T> copy() const { return *this; }
  T& operator[](std::size_t ind) { return data.at(ind); }
  T operator[](std::size_t ind) const { return data.at(ind); }
  T sum() const { return std::accumulate(data.begin(), data.end(), T(0)); }

  // 1 where an element is above a threshold, 0 elsewhere.
  Ndarray<int> filter(float thr) const {
    Ndarray<int> made;
    made.zeros(shape);
    std::transform(data.begin(), data.end(), made.data.begin(),
                   [thr](T value) { return value > thr ? 1 : 0; });
    return made;
  }
  // The elements where the other array has 1.
  Ndarray<T> bool_select(const Ndarray<int>& A) const {
    std::vector<T> made;
    for (std::size_t i = 0; i < data.size(); ++i) {
      if (A[i] == 1) made.push_back(data[i]);
    }
    return {made, {made.size()}};
  }
  // The elements with these numbers.
  template <typename Number>
  Ndarray<T> select(const Ndarray<Number>& A) const {
    std::vector<T> made;
    for (const auto number : A.data) made.push_back(data.at(static_cast<std::size_t>(number)));
    return {made, {made.size()}};
  }
  // From and to, in each dimension.
  Ndarray<T> slice(const std::vector<std::vector<std::size_t>>& range) const {
    if (range.size() != dim) throw std::invalid_argument("a slice needs a range a dimension");
    std::vector<std::size_t> places{0}, sizes;
    for (std::size_t i = 0; i < dim; ++i) {
      if (range[i].at(1) > shape[i] || range[i][0] > range[i][1]) {
        throw std::out_of_range("dimension " + std::to_string(i) + " of a slice ends beyond " +
                                std::to_string(shape[i]));
      }
      std::vector<std::size_t> next;
      for (const auto place : places) {
        for (auto k = range[i][0]; k < range[i][1]; ++k) next.push_back(place * shape[i] + k);
      }
      places.swap(next);
      sizes.push_back(range[i][1] - range[i][0]);
    }
    std::vector<T> made;
    for (const auto place : places) made.push_back(data[place]);
    return {made, sizes};
  }
  // Parts along the first dimension: those with these numbers, or where the other array has 1.
  template <typename Number>
  Ndarray<T> slice_dim0(const Ndarray<Number>& range, bool select_by_bool = false) const {
    const auto part = product({shape.begin() + 1, shape.end()});
    Ndarray<T> made;
    made.shape = shape;
    made.dim = dim;
    made.shape.at(0) = 0;
    for (std::size_t i = 0; i < range.size(); ++i) {
      if (select_by_bool && range[i] != 1) continue;
      const auto number = select_by_bool ? i : static_cast<std::size_t>(range[i]);
      if (number >= shape[0]) throw std::out_of_range("there is no part " + std::to_string(number));
      const auto first = data.begin() + static_cast<std::ptrdiff_t>(number * part);
      made.data.insert(made.data.end(), first, first + static_cast<std::ptrdiff_t>(part));
      ++made.shape[0];
    }
    return made;
  }
  // Numbers of elements from the smallest on; from the largest where the argument is not 0.
  Ndarray<std::size_t> argsort(int descending = 0) const {
    Ndarray<std::size_t> made;
    made.zeros(shape);
    std::iota(made.data.begin(), made.data.end(), std::size_t{0});
    std::stable_sort(made.data.begin(), made.data.end(), [&](std::size_t a, std::size_t b) {
      return descending ? data[a] > data[b] : data[a] < data[b];
    });
    return made;
  }

  void print(const std::string& info = "") const {
    std::cout << info << " dim: " << dim << ", size: " << size() << "\nshape: [";
    for (const auto side : shape) std::cout << side << " ";
    std::cout << "]" << std::endl;
  }

 private:
  static std::size_t product(const std::vector<std::size_t>& sides) {
    return std::accumulate(sides.begin(), sides.end(), std::size_t{1}, std::multiplies<>());
  }
  void fill(const std::vector<std::size_t>& shapes, T value) {
    data.assign(product(shapes), value);
    reshape(shapes);
  }
};
