// SPDX-License-Identifier: Apache-2.0
// The assignment problem, row by row along shortest augmenting paths (Jonker and Volgenant).
#include "assignment.hpp"

#include <cstddef>
#include <limits>

namespace opendpu {
namespace tasks {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

// For no more rows than columns.
class Assignment {
 public:
  explicit Assignment(const std::vector<std::vector<double>>& costs)
      : costs_(costs), columns_(costs.front().size()), row_price_(costs.size(), 0),
        column_price_(columns_, 0), owner_(columns_, kNone) {
    for (std::size_t row = 0; row < costs.size(); ++row) add(row);
  }

  std::vector<int> columns_of_rows() const {
    std::vector<int> made(costs_.size(), -1);
    for (std::size_t column = 0; column < columns_; ++column) {
      if (owner_[column] != kNone) made[owner_[column]] = static_cast<int>(column);
    }
    return made;
  }

 private:
  // A column for a row; those before may get others.
  void add(std::size_t first) {
    std::vector<double> distance(columns_, std::numeric_limits<double>::infinity());
    std::vector<std::size_t> before(columns_, kNone), scanned;
    std::vector<bool> done(columns_, false);
    std::size_t row = first, from = kNone, column = kNone;
    double reached = 0;
    while (column == kNone || owner_[column] != kNone) {
      if (column != kNone) {
        row = owner_[column];
        from = column;
      }
      std::size_t next = kNone;
      for (std::size_t c = 0; c < columns_; ++c) {
        if (done[c]) continue;
        const double reduced = costs_[row][c] - row_price_[row] - column_price_[c];
        if (reached + reduced < distance[c]) {
          distance[c] = reached + reduced;
          before[c] = from;
        }
        if (next == kNone || distance[c] < distance[next]) next = c;
      }
      column = next;
      reached = distance[column];
      done[column] = true;
      scanned.push_back(column);
    }
    // Prices keep reduced costs from falling below 0.
    row_price_[first] += reached;
    for (const auto c : scanned) {
      if (owner_[c] == kNone) continue;
      row_price_[owner_[c]] += reached - distance[c];
      column_price_[c] -= reached - distance[c];
    }
    for (; before[column] != kNone; column = before[column]) {
      owner_[column] = owner_[before[column]];
    }
    owner_[column] = first;
  }

  const std::vector<std::vector<double>>& costs_;
  std::size_t columns_;
  std::vector<double> row_price_, column_price_;
  std::vector<std::size_t> owner_;
};

}  // namespace

std::vector<int> assigned(const std::vector<std::vector<double>>& costs) {
  if (costs.empty() || costs.front().empty()) return std::vector<int>(costs.size(), -1);
  const std::size_t rows = costs.size(), columns = costs.front().size();
  if (rows <= columns) return Assignment(costs).columns_of_rows();
  std::vector<std::vector<double>> turned(columns, std::vector<double>(rows));
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) turned[c][r] = costs[r][c];
  }
  const auto rows_of_columns = Assignment(turned).columns_of_rows();
  std::vector<int> made(rows, -1);
  for (std::size_t c = 0; c < columns; ++c) {
    made[static_cast<std::size_t>(rows_of_columns[c])] = static_cast<int>(c);
  }
  return made;
}

}  // namespace tasks
}  // namespace opendpu
