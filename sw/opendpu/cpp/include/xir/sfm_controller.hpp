// SPDX-License-Identifier: Apache-2.0
// The softmax core that a board may have beside its DPU. Here there is none: `supported` says so,
// and `run` computes on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace xir {

class SfmController {
 public:
  static std::shared_ptr<SfmController> get_instance();
  virtual ~SfmController() = default;
  SfmController(const SfmController&) = delete;
  SfmController& operator=(const SfmController&) = delete;

  // `group` rows of `cls` elements, each worth `scale`.
  virtual void run(const std::int8_t* input, float scale, unsigned int cls, unsigned int group,
                   float* output) = 0;
  // On addresses of a board's memory; throws std::runtime_error.
  virtual void run_xrt_cu(std::size_t core_idx, const std::uint64_t input, const unsigned int cls,
                          const unsigned int group, const int scale, std::uint64_t output,
                          std::uint32_t offset) = 0;
  virtual bool supported(float scale, unsigned int cls, unsigned int group) const = 0;

 protected:
  SfmController() = default;
};

}  // namespace xir
