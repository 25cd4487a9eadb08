// SPDX-License-Identifier: Apache-2.0
// Softmax on the CPU, for programs that ask for a core.
#include "xir/sfm_controller.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace xir {
namespace {

class OnCpu : public SfmController {
 public:
  void run(const std::int8_t* input, float scale, unsigned int cls, unsigned int group,
           float* output) override {
    for (unsigned int row = 0; row < group; ++row, input += cls, output += cls) {
      const auto largest = *std::max_element(input, input + cls);
      std::transform(input, input + cls, output, [&](std::int8_t value) {
        return std::exp(static_cast<float>(value - largest) * scale);
      });
      const auto sum = std::accumulate(output, output + cls, 0.f);
      std::transform(output, output + cls, output, [&](float power) { return power / sum; });
    }
  }
  void run_xrt_cu(std::size_t, std::uint64_t, unsigned int, unsigned int, int, std::uint64_t,
                  std::uint32_t) override {
    throw std::runtime_error("there is no softmax core: the simulated device has the DPU alone");
  }
  bool supported(float, unsigned int, unsigned int) const override { return false; }
};

}  // namespace

std::shared_ptr<SfmController> SfmController::get_instance() {
  static const auto only = std::make_shared<OnCpu>();
  return only;
}

}  // namespace xir
