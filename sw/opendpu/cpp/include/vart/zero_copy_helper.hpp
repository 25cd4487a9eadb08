// SPDX-License-Identifier: Apache-2.0
// Where a DPU subgraph has its inputs and outputs, for programs that hand out memory of their own.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "xir/graph/graph.hpp"
#include "xir/graph/subgraph.hpp"

namespace vart {

// An xrt::device and an xrt::bo.
struct xrt_bo_t {
  void* xrt_handle;
  void* xrt_bo_handle;
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
