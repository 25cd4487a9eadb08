// SPDX-License-Identifier: Apache-2.0
// A program with memory from XRT's C interface.
//
// xrt_c MODEL SUBGRAPH INPUT: prints sizes, errors, and all outputs.
#include <xclhal2.h>
#include <xrt.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "experimental/xrt_bo.h"
#include "experimental/xrt_device.h"
#include "experimental/xrt_kernel.h"
#include "experimental/xrt_uuid.h"
#include "status.hpp"
#include "vart/assistant/xrt_bo_tensor_buffer.hpp"
#include "vart/runner_ext.hpp"
#include "vart/zero_copy_helper.hpp"
#include "xir/graph/graph.hpp"
#include "xir/sfm_controller.hpp"

namespace {

using Buffers = std::vector<std::unique_ptr<vart::TensorBuffer>>;

Buffers buffers_in(const vart::xrt_bo_t& bo, const std::vector<const xir::Tensor*>& tensors) {
  Buffers made;
  for (const auto* tensor : tensors) {
    made.push_back(vart::assistant::XrtBoTensorBuffer::create(bo, tensor));
  }
  return made;
}

std::vector<vart::TensorBuffer*> pointers(const Buffers& buffers) {
  std::vector<vart::TensorBuffer*> made;
  for (const auto& buffer : buffers) made.push_back(buffer.get());
  return made;
}

void errors(xclDeviceHandle device, const xir::Tensor* tensor) {
  const auto small = xclAllocBO(device, 8, 0, XCL_BO_FLAGS_CACHEABLE);
  char bytes[8] = "1234567", other[8] = "";
  std::uint32_t word = 0;
  std::cout << xclWriteBO(device, small, bytes, 8, 0) << " " << xclReadBO(device, small, other, 6, 2)
            << " " << other << std::endl;
  const auto over = xclAllocUserPtrBO(device, other, 8, 0);
  std::cout << xclCopyBO(device, over, small, 4, 4, 0) << " " << std::string(other, 8) << std::endl;
  std::cout << (xclOpen(1, nullptr, XCL_QUIET) == nullptr) << " "
            << (xclAllocBO(nullptr, 8, 0, 0) == NULLBO) << " "
            << (xclMapBO(device, 4711, true) == nullptr) << " "
            << xclSyncBO(device, small, XCL_BO_SYNC_BO_TO_DEVICE, 8, 1) << " "
            << xclRegRead(device, 0, 0, &word) << " " << xclIPName2Index(device, "pp") << std::endl;
  try {
    buffers_in({device, small}, {tensor});
  } catch (const std::exception& error) {
    std::cout << error.what() << std::endl;
  }
  xclFreeBO(device, small);
  try {
    buffers_in({device, small}, {tensor});
  } catch (const std::exception& error) {
    std::cout << error.what() << std::endl;
  }
}

void softmax_core() {
  const std::int8_t input[] = {4, 8, 0, 127, 127, -128};
  float output[6];
  auto core = xir::SfmController::get_instance();
  core->run(input, 0.25f, 3, 2, output);
  std::cout << core->supported(0.25f, 3, 2);
  for (const float value : output) std::cout << " " << value;
  std::cout << std::endl;
}

int run(char* argv[]) {
  auto graph = xir::Graph::deserialize(argv[1]);
  const auto* subgraph = graph->get_root_subgraph()->get_subgraph(argv[2]);
  auto attrs = xir::Attrs::create();
  auto runner = vart::RunnerExt::create_runner(subgraph, attrs.get());
  std::ifstream file(argv[3], std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};

  std::cout << xclProbe() << std::endl;
  auto device = xclOpen(0, nullptr, XCL_INFO);
  const auto taken = xclAllocBO(device, vart::get_input_buffer_size(subgraph), 0, 0);
  const auto made = xclAllocBO(device, vart::get_output_buffer_size(subgraph), 0, 0);
  std::vector<vart::xrt_bo_t> bos;
  bos.push_back(vart::xrt_bo_t{device, taken});
  auto* memory = static_cast<char*>(xclMapBO(bos[0].xrt_handle, bos[0].xrt_bo_handle, true));
  std::memcpy(memory + vart::get_input_offset(subgraph)[0], bytes.data(), bytes.size());
  xclSyncBO(device, taken, XCL_BO_SYNC_BO_TO_DEVICE, bytes.size(), 0);
  xclBOProperties found;
  if (xclGetBOProperties(device, taken, &found) != 0) return 1;
  const auto inputs = buffers_in(bos[0], runner->get_input_tensors());
  const auto outputs = buffers_in({device, made}, runner->get_output_tensors());
  std::cout << found.size << " " << (inputs[0]->data_phy({0, 0, 0, 0}).first == found.paddr) << " "
            << (found.paddr == reinterpret_cast<std::uint64_t>(memory)) << std::endl;
  if (xclUnmapBO(device, taken, memory) != 0) return 2;

  const auto job = runner->execute_async(pointers(inputs), pointers(outputs));
  if (runner->wait(static_cast<int>(job.first), -1) != 0) return 4;
  const auto offsets = vart::get_output_offset(subgraph);
  const auto* results = static_cast<const std::int8_t*>(xclMapBO(device, made, false));
  const auto tensors = runner->get_output_tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (int k = 0; k < tensors[i]->get_data_size(); ++k) {
      std::cout << +results[offsets[i] + static_cast<std::size_t>(k)] << " ";
    }
    std::cout << std::endl;
  }
  errors(device, runner->get_input_tensors()[0]);
  xclClose(device);
  softmax_core();
  return 0;
}

}  // namespace

int main(int, char* argv[]) {
  return status_of([&] { return run(argv); });
}
