// SPDX-License-Identifier: Apache-2.0
// What a model was compiled for: targets MODEL NAME, as programs ask before they choose a kernel.
#include <cstdint>
#include <iostream>
#include <string>

#include "status.hpp"
#include "vitis/ai/target_factory.hpp"
#include "xir/graph/graph.hpp"

namespace {

void tell(const vitis::ai::Target& target) {
  std::cout << target.name() << " " << target.type() << " " << target.isa_version() << " "
            << target.feature_code() << std::endl;
}

int run(char* argv[]) {
  const auto* factory = vitis::ai::target_factory();
  auto graph = xir::Graph::deserialize(argv[1]);
  for (const auto* child : graph->get_root_subgraph()->children_topological_sort()) {
    if (!child->has_attr("dpu_fingerprint")) continue;
    const auto fingerprint = child->get_attr<std::uint64_t>("dpu_fingerprint");
    const auto target = factory->create(fingerprint);
    tell(target);
    std::cout << (factory->get_fingerprint(target.name()) == fingerprint) << " "
              << (factory->get_fingerprint(target.type(), target.isa_version(),
                                           target.feature_code()) == fingerprint)
              << std::endl;
  }
  tell(factory->create(argv[2]));
  std::cout << factory->is_registered_target(argv[2]) << factory->is_registered_target("B9999")
            << std::endl;
  for (int i = 0; i < 3; ++i) {
    try {
      if (i == 0) factory->create(std::string("DPUCAHX8H"));
      if (i == 1) factory->create(std::uint64_t{0x0301000000000000});
      if (i == 2) factory->get_fingerprint("DPUCVDX8G", 1, 2);
    } catch (const std::exception& error) {
      std::cout << error.what() << std::endl;
    }
  }
  return 0;
}

}  // namespace

int main(int, char* argv[]) {
  return status_of([&] { return run(argv); });
}
