// SPDX-License-Identifier: Apache-2.0
// A model's files by its name.
#include "files.hpp"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace opendpu {
namespace tasks {
namespace {

namespace fs = std::filesystem;
using vitis::ai::proto::DpuModelParam;
using vitis::ai::proto::DpuModelParamList;

// What a file has that is not of this schema is told, where it matters; the first error is kept.
class Complaints : public google::protobuf::io::ErrorCollector {
 public:
  Complaints(std::string path, bool told) : path_(std::move(path)), told_(told) {}
  void AddError(int line, int, const std::string& message) override {
    if (error.empty()) error = place(line) + message;
  }
  void AddWarning(int line, int, const std::string& message) override {
    if (told_) std::cerr << "vitis_ai_library: " << place(line) << message << std::endl;
  }
  std::string error;

 private:
  std::string place(int line) const { return path_ + ":" + std::to_string(line + 1) + ": "; }
  std::string path_;
  bool told_;
};

// What a text file says; `told` as above.
template <typename Message>
Message read_text(const std::string& path, bool told) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) throw std::runtime_error(path + ": cannot be read");
  Complaints complaints(path, told);
  google::protobuf::TextFormat::Parser parser;
  parser.AllowUnknownField(true);
  parser.RecordErrorsTo(&complaints);
  Message message;
  if (!parser.ParseFromString(text.str(), &message)) throw std::runtime_error(complaints.error);
  return message;
}

}  // namespace

std::string find_model(const std::string& name) {
  if (fs::is_regular_file(name)) return name;
  std::vector<fs::path> folders;
  if (const char* given = std::getenv("VAI_LIBRARY_MODELS_DIR")) folders.emplace_back(given);
  for (const char* folder :
       {".", "/usr/share/vitis_ai_library/models", "/usr/share/vitis_ai_library/.models"}) {
    folders.emplace_back(folder);
  }
  std::string tried;
  for (const auto& folder : folders) {
    const auto path = folder / name / (name + ".xmodel");
    if (fs::is_regular_file(path)) return path.string();
    tried += " " + path.string();
  }
  throw std::runtime_error("there is no model " + name + "; tried:" + tried);
}

DpuModelParam read_config(const std::string& name) {
  const auto path = fs::path(find_model(name)).replace_extension(".prototxt").string();
  const auto models = read_text<DpuModelParamList>(path, true);
  if (models.model_size() != 1) {
    throw std::runtime_error(path + ": has " + std::to_string(models.model_size()) +
                             " models, but must have one");
  }
  return models.model(0);
}

vitis::ai::proto::TrainEvalPipelineConfig read_pipeline(const std::string& folder,
                                                        const std::string& name) {
  const fs::path model(name);
  const auto stem = model.extension() == ".xmodel" ? model.stem() : model.filename();
  const auto path = fs::path(folder) / (stem.string() + "_officialcfg.prototxt");
  return read_text<vitis::ai::proto::TrainEvalPipelineConfig>(path.string(), false);
}

}  // namespace tasks
}  // namespace opendpu
