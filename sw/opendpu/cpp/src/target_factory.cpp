// SPDX-License-Identifier: Apache-2.0
// Targets, as Python knows them.
#include "vitis/ai/target_factory.hpp"

#include <stdexcept>

#include "python.hpp"

namespace vitis {
namespace ai {
namespace {

using opendpu::call;
using opendpu::Gil;
using opendpu::integer;
using opendpu::item;

std::string in_hexadecimal(std::uint64_t value) {
  std::string made;
  do {
    made.insert(made.begin(), "0123456789abcdef"[value % 16]);
  } while (value /= 16);
  return "0x" + made;
}

struct Found {
  Target target;
  std::uint64_t fingerprint;
};

Found find(const std::string& name) {
  const Gil gil;
  const auto told = call("target", {opendpu::string(name).get()});
  Found found;
  found.target.set_name(opendpu::text(item(told.get(), 0)));
  found.target.set_type(opendpu::text(item(told.get(), 1)));
  found.target.set_isa_version(static_cast<std::uint64_t>(integer(item(told.get(), 2))));
  found.target.set_feature_code(static_cast<std::uint64_t>(integer(item(told.get(), 3))));
  found.fingerprint = static_cast<std::uint64_t>(integer(item(told.get(), 4)));
  return found;
}

class Factory : public TargetFactory {
 public:
  const Target create(const std::string& name) const override { return find(name).target; }
  const Target create(const std::uint64_t fingerprint) const override {
    return find(in_hexadecimal(fingerprint)).target;
  }
  const Target create(const std::string& type, std::uint64_t isa_version,
                      std::uint64_t feature_code) const override {
    return create(get_fingerprint(type, isa_version, feature_code));
  }
  std::uint64_t get_fingerprint(const std::string& name) const override {
    return find(name).fingerprint;
  }
  std::uint64_t get_fingerprint(const std::string& type, std::uint64_t isa_version,
                                std::uint64_t feature_code) const override {
    const Gil gil;
    return static_cast<std::uint64_t>(
        integer(call("fingerprint", {opendpu::string(type).get(),
                                     opendpu::number(static_cast<long long>(isa_version)).get(),
                                     opendpu::number(static_cast<long long>(feature_code)).get()})
                    .get()));
  }
  bool is_registered_target(const std::string& name) const override {
    try {
      find(name);
      return true;
    } catch (const std::runtime_error&) {
      return false;
    }
  }
};

}  // namespace

const TargetFactory* target_factory() {
  static const Factory only;
  return &only;
}

}  // namespace ai
}  // namespace vitis
