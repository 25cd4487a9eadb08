// SPDX-License-Identifier: Apache-2.0
// Targets: what a fingerprint stands for. Those of this project, and no others.
#pragma once

#include <cstdint>
#include <string>

namespace vitis {
namespace ai {

class Target {
 public:
  const std::string& name() const { return name_; }  // DPUCZDX8G_ISA1_B4096 ...
  const std::string& type() const { return type_; }  // DPUCZDX8G
  std::uint64_t isa_version() const { return isa_version_; }
  std::uint64_t feature_code() const { return feature_code_; }

  void set_name(const std::string& name) { name_ = name; }
  void set_type(const std::string& type) { type_ = type; }
  void set_isa_version(std::uint64_t version) { isa_version_ = version; }
  void set_feature_code(std::uint64_t code) { feature_code_ = code; }

 private:
  std::string name_, type_;
  std::uint64_t isa_version_ = 0, feature_code_ = 0;
};

// All of these throw std::runtime_error for a target that there is not.
class TargetFactory {
 public:
  virtual ~TargetFactory() = default;
  virtual const Target create(const std::string& name) const = 0;
  virtual const Target create(const std::uint64_t fingerprint) const = 0;
  virtual const Target create(const std::string& type, std::uint64_t isa_version,
                              std::uint64_t feature_code) const = 0;
  virtual std::uint64_t get_fingerprint(const std::string& name) const = 0;
  virtual std::uint64_t get_fingerprint(const std::string& type, std::uint64_t isa_version,
                                        std::uint64_t feature_code) const = 0;
  virtual bool is_registered_target(const std::string& name) const = 0;
};

const TargetFactory* target_factory();

}  // namespace ai
}  // namespace vitis
