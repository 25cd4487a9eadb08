// SPDX-License-Identifier: Apache-2.0
// A program with memory from XRT, and a runner by the names of a file and a subgraph.
//
// zero_copy MODEL SUBGRAPH INPUT: prints scales, places and all outputs. With a fourth argument it
// does what is refused.
#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>

#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "status.hpp"
#include "vart/assistant/xrt_bo_tensor_buffer.hpp"
#include "vart/dpu/dpu_runner_ext.hpp"
#include "vart/dpu/vitis_dpu_runner_factory.hpp"
#include "vart/zero_copy_helper.hpp"
#include "xir/graph/graph.hpp"
#include "xir/xrt_device_handle.hpp"

namespace {

template <typename T>
void print(const char* what, const std::vector<T>& values) {
  std::cout << what;
  for (const auto& value : values) std::cout << " " << +value;
  std::cout << std::endl;
}

using Buffers = std::vector<std::unique_ptr<vart::TensorBuffer>>;

Buffers buffers_in(xrt::device* device, xrt::bo* bo, const std::vector<const xir::Tensor*>& tensors) {
  Buffers made;
  for (const auto* tensor : tensors) {
    made.push_back(vart::assistant::XrtBoTensorBuffer::create({device, bo}, tensor));
  }
  return made;
}

std::vector<vart::TensorBuffer*> pointers(const Buffers& buffers) {
  std::vector<vart::TensorBuffer*> made;
  for (const auto& buffer : buffers) made.push_back(buffer.get());
  return made;
}

void refused(const std::string& what, vart::Runner& runner, const char* model) {
  if (what == "device") xrt::device(1);
  if (what == "kernel") vart::dpu::DpuRunnerFactory::create_dpu_runner(model, "nothing");
  auto handle = xir::XrtDeviceHandle::get_instance();
  if (handle->get_num_of_devices() != 1 || handle->get_num_of_cus("DPU") != 0) return;
  if (what == "register") handle->read_register("DPU", 0, 0x44);
  handle.reset();
  xrt::device device(0);
  xrt::bo small(device, 8, 1);
  if (what == "small") buffers_in(&device, &small, runner.get_input_tensors());
  if (what == "none") buffers_in(&device, nullptr, runner.get_input_tensors());
  if (what == "other kernel") xrt::kernel(device, device.get_xclbin_uuid(), "pp_pipeline_accel");
  if (what == "part") small.sync(XCL_BO_SYNC_BO_TO_DEVICE, 8, 1);
}

int run(int argc, char* argv[]) {
  auto runner = vart::dpu::DpuRunnerFactory::create_dpu_runner(argv[1], argv[2]);
  if (argc > 4) {
    refused(argv[4], *runner, argv[1]);
    return 0;
  }
  auto* ext = dynamic_cast<vart::dpu::DpuRunnerExt*>(runner.get());
  if (!ext || !dynamic_cast<vart::RunnerExt*>(runner.get())) return 1;
  print("input scale", ext->get_input_scale());
  print("output scale", ext->get_output_scale());

  auto graph = xir::Graph::deserialize(argv[1]);
  const auto* subgraph = graph->get_root_subgraph()->get_subgraph(argv[2]);
  print("input offsets", vart::get_input_offset(subgraph));
  print("output offsets", vart::get_output_offset(subgraph));
  for (const auto& [number, type, size] : vart::extract_reg_info_from_subgraph(subgraph)) {
    std::cout << number << " " << vart::to_string(type) << " " << size << std::endl;
  }

  xrt::device device(0);
  device.load_xclbin("/run/media/mmcblk0p1/dpu.xclbin");
  xrt::bo taken(device, vart::get_input_buffer_size(subgraph), 1);
  xrt::bo made(device, vart::get_output_buffer_size(subgraph), xrt::bo::flags::cacheable, 1);
  const auto inputs = buffers_in(&device, &taken, runner->get_input_tensors());
  const auto outputs = buffers_in(&device, &made, runner->get_output_tensors());
  std::ifstream file(argv[3], std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  taken.write(bytes.data(), bytes.size(), 0);
  taken.sync(XCL_BO_SYNC_BO_TO_DEVICE);
  if (inputs[0]->data_phy({0, 0, 0, 0}).first != taken.address()) return 2;

  const auto job = runner->execute_async(pointers(inputs), pointers(outputs));
  if (runner->wait(static_cast<int>(job.first), -1) != 0) return 4;
  made.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
  const auto offsets = vart::get_output_offset(subgraph);
  const auto tensors = runner->get_output_tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto* first = made.map<std::int8_t*>() + offsets[i];
    print("output", std::vector<std::int8_t>(first, first + tensors[i]->get_data_size()));
  }
  return 0;
}

}  // namespace

int main(int argc, char* argv[]) {
  return status_of([&] { return run(argc, argv); });
}
