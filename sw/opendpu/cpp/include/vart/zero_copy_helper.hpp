// SPDX-License-Identifier: Apache-2.0
// Where a DPU subgraph has its inputs and outputs, for programs that hand out memory of their own.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "xir/graph/graph.hpp"
#include "xir/graph/subgraph.hpp"

namespace vart {

// An xrt::bo, or the number that xclAllocBO gave; programs store either, and take it out again.
class xrt_bo_handle_t {
 public:
  xrt_bo_handle_t(void* object = nullptr) : object_(object) {}
  xrt_bo_handle_t(unsigned int number) : number_(number), numbered_(true) {}

  operator void*() const { return object_; }
  operator unsigned int() const { return number_; }
  template <typename T>
  explicit operator T*() const {
    return static_cast<T*>(object_);
  }
  explicit operator bool() const { return numbered_ || object_ != nullptr; }
  bool is_number() const { return numbered_; }

 private:
  void* object_ = nullptr;
  unsigned int number_ = 0;
  bool numbered_ = false;
};

// An xrt::device and an xrt::bo, or both as XRT's C interface has them.
struct xrt_bo_t {
  void* xrt_handle;
  xrt_bo_handle_t xrt_bo_handle;
};

// What a register of addresses points to.
enum class reg_type_t : int {
  INVALID,
  CONST,
  DATA_LOCAL,
  DATA_GLOBAL,
  DATA_LOCAL_INPUT,
  DATA_LOCAL_OUTPUT
};

struct reg_basic_info_t {
  std::size_t reg_id;
  reg_type_t type;
  std::size_t size;
};

std::string to_string(reg_type_t type);

// The bytes of the memory that all inputs (outputs) share; -1 where they do not share one.
int get_input_buffer_size(const xir::Subgraph* subgraph);
int get_output_buffer_size(const xir::Subgraph* subgraph);
// Where in it each of them begins, by the names of the tensors.
std::vector<std::size_t> get_input_offset(const xir::Subgraph* subgraph);
std::vector<std::size_t> get_output_offset(const xir::Subgraph* subgraph);
// By number; nothing where the subgraph is none of the DPU's.
std::vector<reg_basic_info_t> extract_reg_info_from_subgraph(const xir::Subgraph* subgraph);

}  // namespace vart
