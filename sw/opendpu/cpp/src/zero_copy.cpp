// SPDX-License-Identifier: Apache-2.0
// Where inputs and outputs of DPU subgraphs lie, and tensor buffers over XRT's memory.
#include "vart/zero_copy_helper.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "vart/assistant/xrt_bo_tensor_buffer.hpp"
#include "vart/runner_helper.hpp"
#include "xrt.hpp"

namespace vart {
namespace {

using Tensors = std::vector<const xir::Tensor*>;

constexpr const char* NAMES[] = {"INVALID",     "CONST",            "DATA_LOCAL",
                                 "DATA_GLOBAL", "DATA_LOCAL_INPUT", "DATA_LOCAL_OUTPUT"};

// The tensors that have the places of inputs: those of the uploads behind them, in the order of
// the inputs' names, as runners have them.
Tensors inputs_in_memory(const xir::Subgraph* subgraph) {
  if (!subgraph) throw std::invalid_argument("the subgraph is a null pointer");
  std::vector<std::pair<std::string, const xir::Tensor*>> found;
  for (const auto* op : subgraph->topological_sort()) {
    if (op->get_type() != "upload") continue;
    found.emplace_back(op->get_input_tensor("input")->get_name(), op->get_output_tensor());
  }
  for (const auto* tensor : subgraph->get_sorted_input_tensors()) {
    if (tensor->has_attr("reg_id")) found.emplace_back(tensor->get_name(), tensor);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Tensors made;
  for (const auto& [name, tensor] : found) made.push_back(tensor);
  return made;
}

// Those of outputs: what downloads take.
Tensors outputs_in_memory(const xir::Subgraph* subgraph) {
  Tensors made;
  if (!subgraph) throw std::invalid_argument("the subgraph is a null pointer");
  for (const auto* tensor : subgraph->get_sorted_output_tensors()) {
    const auto* producer = subgraph->get_tensor_producer(tensor);
    const bool moved = !tensor->has_attr("reg_id") && producer && producer->get_type() == "download";
    made.push_back(moved ? producer->get_input_tensor("input") : tensor);
  }
  return made;
}

int attribute(const xir::Tensor* tensor, const std::string& key) {
  if (tensor->has_attr(key)) return tensor->get_attr<int>(key);
  throw std::runtime_error("tensor " + tensor->to_string() + " has no attribute " + key +
                           ", so it is nowhere in a DPU's memory");
}

std::string register_name(int number) { return "REG_" + std::to_string(number); }

int shared_size(const xir::Subgraph* subgraph, const Tensors& tensors) {
  if (tensors.empty()) return -1;
  const int first = attribute(tensors.front(), "reg_id");
  for (const auto* tensor : tensors) {
    if (attribute(tensor, "reg_id") != first) return -1;
  }
  const auto sizes = subgraph->get_attr<std::map<std::string, std::int32_t>>("reg_id_to_size");
  const auto found = sizes.find(register_name(first));
  return found == sizes.end() ? -1 : found->second;
}

std::vector<std::size_t> offsets(const Tensors& tensors) {
  std::vector<std::size_t> made;
  for (const auto* tensor : tensors) {
    made.push_back(static_cast<std::size_t>(attribute(tensor, "ddr_addr")));
  }
  return made;
}

bool has_register(const Tensors& tensors, int number) {
  return std::any_of(tensors.begin(), tensors.end(), [number](const xir::Tensor* tensor) {
    return attribute(tensor, "reg_id") == number;
  });
}

// The object itself, which shares its memory; an empty one where there is none.
xrt::bo object_of(const xrt_bo_handle_t& handle) {
  if (handle.is_number()) return opendpu::numbered_bo(handle);
  const auto* object = static_cast<const xrt::bo*>(handle);
  return object ? *object : xrt::bo();
}

reg_type_t type_of(const std::string& context, bool input, bool output) {
  if (context == "CONST") return reg_type_t::CONST;
  if (context == "WORKSPACE") return reg_type_t::DATA_GLOBAL;
  if (context == "INTERFACE" && input != output) {
    return input ? reg_type_t::DATA_LOCAL_INPUT : reg_type_t::DATA_LOCAL_OUTPUT;
  }
  return reg_type_t::DATA_LOCAL;
}

}  // namespace

std::string to_string(reg_type_t type) { return NAMES[static_cast<int>(type)]; }

int get_input_buffer_size(const xir::Subgraph* subgraph) {
  return shared_size(subgraph, inputs_in_memory(subgraph));
}

int get_output_buffer_size(const xir::Subgraph* subgraph) {
  return shared_size(subgraph, outputs_in_memory(subgraph));
}

std::vector<std::size_t> get_input_offset(const xir::Subgraph* subgraph) {
  return offsets(inputs_in_memory(subgraph));
}

std::vector<std::size_t> get_output_offset(const xir::Subgraph* subgraph) {
  return offsets(outputs_in_memory(subgraph));
}

std::vector<reg_basic_info_t> extract_reg_info_from_subgraph(const xir::Subgraph* subgraph) {
  std::string key = "reg_id_to_context_type_v2";
  if (!subgraph->has_attr(key)) key = "reg_id_to_context_type";
  if (!subgraph->has_attr(key) || !subgraph->has_attr("reg_id_to_size")) return {};
  const auto inputs = inputs_in_memory(subgraph), outputs = outputs_in_memory(subgraph);
  const auto sizes = subgraph->get_attr<std::map<std::string, std::int32_t>>("reg_id_to_size");
  std::vector<reg_basic_info_t> made;
  for (const auto& [name, context] : subgraph->get_attr<std::map<std::string, std::string>>(key)) {
    const auto number = std::stoul(name.substr(name.find('_') + 1));
    while (made.size() <= number) made.push_back({made.size(), reg_type_t::INVALID, 0});
    const auto whole = static_cast<int>(number);
    made[number].type = type_of(context, has_register(inputs, whole), has_register(outputs, whole));
    made[number].size = static_cast<std::size_t>(sizes.at(name));
  }
  return made;
}

namespace assistant {

XrtBoTensorBuffer::XrtBoTensorBuffer(xrt_bo_t bo, const xir::Tensor* tensor)
    : TensorBuffer(tensor) {
  const auto object = object_of(bo.xrt_bo_handle);
  if (!object) {
    throw std::runtime_error("tensor " + tensor->to_string() + " is given no buffer object");
  }
  const auto offset = static_cast<std::size_t>(attribute(tensor, "ddr_addr"));
  const auto wanted = offset + static_cast<std::size_t>(tensor->get_data_size());
  if (object.size() < wanted) {
    throw std::runtime_error("tensor " + tensor->to_string() + " ends at byte " +
                             std::to_string(wanted) + ", but its buffer object has " +
                             std::to_string(object.size()));
  }
  start_ = object.address() + offset;
}

std::unique_ptr<TensorBuffer> XrtBoTensorBuffer::create(xrt_bo_t bo, const xir::Tensor* tensor) {
  return std::make_unique<XrtBoTensorBuffer>(bo, tensor);
}

std::pair<std::uint64_t, std::size_t> XrtBoTensorBuffer::data(const std::vector<std::int32_t> idx) {
  return CpuFlatTensorBuffer(reinterpret_cast<void*>(start_), tensor_).data(idx);
}

std::pair<std::uint64_t, std::size_t> XrtBoTensorBuffer::data_phy(
    const std::vector<std::int32_t> idx) {
  return data(idx);
}

}  // namespace assistant
}  // namespace vart
