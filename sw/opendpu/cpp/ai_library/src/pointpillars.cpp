// SPDX-License-Identifier: Apache-2.0
// PointPillars: points in, boxes out. One network makes features of the points of each pillar; they
// are put where the pillars stand, as the image that the other network looks at.
#include "vitis/ai/pointpillars.hpp"

#include <filesystem>
#include <stdexcept>

#include "files.hpp"
#include "pillar_views.hpp"
#include "pillars.hpp"
#include "scatter.hpp"
#include "vitis/ai/configurable_dpu_task.hpp"

namespace vitis {
namespace ai {
namespace {

class PointPillarsImp : public PointPillars {
 public:
  PointPillarsImp(const std::string& model_name, const std::string& model_name1)
      : pillars_(ConfigurableDpuTask::create(model_name, false)),
        scene_(ConfigurableDpuTask::create(model_name1, false)),
        config_(opendpu::tasks::read_pipeline(
            std::filesystem::path(opendpu::tasks::find_model(model_name)).parent_path().string(),
            model_name)),
        grid_(config_),
        boxes_(grid_, config_.model().second(), scene_->getOutputTensor().at(0)),
        names_(config_.eval_input_reader(0).class_names().begin(),
               config_.eval_input_reader(0).class_names().end()),
        limits_(config_.model().second().post_center_limit_range().begin(),
                config_.model().second().post_center_limit_range().end()) {
    const auto features = pillars_->getOutputTensor().at(0).at(0);
    const auto image = scene_->getInputTensor().at(0).at(0);
    if (image.height != static_cast<std::size_t>(grid_.size[1]) ||
        image.width != static_cast<std::size_t>(grid_.size[0])) {
      throw std::runtime_error("input " + image.name + " has " + std::to_string(image.height) + "x" +
                               std::to_string(image.width) + " cells, but the configuration " +
                               std::to_string(grid_.size[1]) + "x" + std::to_string(grid_.size[0]));
    }
    const auto rows = pillars_->getInputTensor().at(0).at(0).height;
    if (opendpu::tasks::elements(features) != rows * image.channel) {
      throw std::runtime_error("output " + features.name + " must have " +
                               std::to_string(image.channel) + " values for each of " +
                               std::to_string(rows) + " pillars, as input " + image.name +
                               " has channels");
    }
    if (names_.size() < config_.model().second().num_class() || limits_.size() != 6) {
      throw std::runtime_error(
          "the _officialcfg.prototxt must have class_names for num_class classes, and a "
          "post_center_limit_range of six");
    }
  }

  PointPillarsResult run(const V1F& v1f) override {
    return run(v1f.data(), static_cast<int>(v1f.size()));
  }
  std::vector<PointPillarsResult> run(const V2F& v2f) override {
    std::vector<PointPillarsResult> made;
    for (const auto& points : v2f) made.push_back(run(points));
    return made;
  }
  PointPillarsResult run(const float* points, int len) override {
    if (len < 0 || len % 4) {
      throw std::invalid_argument("points have four values each, but there are " +
                                  std::to_string(len));
    }
    const auto standing =
        opendpu::tasks::fill_pillars(grid_, points, static_cast<std::size_t>(len) / 4,
                                     pillars_->getInputTensor().at(0).at(0));
    pillars_->run(0);
    const auto image = scene_->getInputTensor().at(0).at(0);
    opendpu::tasks::scatter(standing, pillars_->getOutputTensor().at(0).at(0), image);
    scene_->run(0);
    return {static_cast<int>(image.width), static_cast<int>(image.height),
            boxes_.found(standing, scene_->getOutputTensor().at(0))};
  }
  std::vector<PointPillarsResult> run(const std::vector<const float*>& vpoints,
                                      const std::vector<int>& vlen) override {
    std::vector<PointPillarsResult> made;
    for (std::size_t i = 0; i < vpoints.size(); ++i) made.push_back(run(vpoints[i], vlen.at(i)));
    return made;
  }
  std::size_t get_input_batch() const override { return pillars_->get_input_batch(); }

  void do_pointpillar_display(PointPillarsResult& res, int flag, DISPLAY_PARAM& dispp,
                              cv::Mat& rgb_map, cv::Mat& bev_map, int width, int height,
                              ANNORET& annoret) override {
    const auto& result = res.ppresult;
    const auto in_camera = opendpu::tasks::in_camera(result.final_box_preds, dispp);
    if (flag & E_RGB) {
      opendpu::tasks::draw_photo(rgb_map, in_camera, result.label_preds, dispp);
      if (!(flag & E_BEV)) return;
    }
    opendpu::tasks::annotate(result, in_camera, dispp, names_, limits_, width, height, annoret);
    if (flag & E_BEV) {
      opendpu::tasks::draw_view(bev_map, annoret, config_.model().second().nms_score_threshold());
    }
  }

 private:
  std::unique_ptr<ConfigurableDpuTask> pillars_, scene_;
  proto::TrainEvalPipelineConfig config_;
  opendpu::tasks::PillarGrid grid_;
  opendpu::tasks::PillarBoxes boxes_;
  std::vector<std::string> names_;
  V1F limits_;
};

}  // namespace

std::unique_ptr<PointPillars> PointPillars::create(const std::string& model_name,
                                                   const std::string& model_name1) {
  return std::make_unique<PointPillarsImp>(model_name, model_name1);
}

}  // namespace ai
}  // namespace vitis
