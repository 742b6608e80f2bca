#include "space/target.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "space/fixed_keys.hpp"
#include "spec/strategy_rules.hpp"

namespace meshplan {
namespace {

struct SpaceRow {
  Space space;
  Target target;
  Framework framework;
};
constexpr std::array kSpaces{
    SpaceRow{Space::kMegatron, Target::kMegatron, Framework::kMegatron},
    SpaceRow{Space::kDeepspeed, Target::kDeepspeed, Framework::kDeepspeed},
    SpaceRow{Space::kFsdp, Target::kAccelerate, Framework::kFsdp},
    SpaceRow{Space::kTorchtitan, Target::kTorchtitan, Framework::kTorchtitan},
    SpaceRow{Space::kAxolotl, Target::kAxolotl, Framework::kFsdp},
    SpaceRow{Space::kTorchtune, Target::kTorchtune, Framework::kFsdp},
};

const SpaceRow* row_of(Space space) {
  for (const SpaceRow& row : kSpaces) {
    if (row.space == space) return &row;
  }
  return nullptr;  // the full space
}

bool is_about_preset(const Finding& f) {
  return f.keys.front() == "framework" || f.keys.front() == "release";
}

}  // namespace

std::optional<Target> target_of(Space space) {
  const SpaceRow* row = row_of(space);
  return row != nullptr ? std::optional(row->target) : std::nullopt;
}

std::optional<Framework> framework_of(Space space) {
  const SpaceRow* row = row_of(space);
  return row != nullptr ? std::optional(row->framework) : std::nullopt;
}

std::optional<Space> space_of(Framework f) {
  for (const SpaceRow& row : kSpaces) {
    if (row.framework == f) return row.space;
  }
  return std::nullopt;
}

Space space_of(Target t) {
  for (const SpaceRow& row : kSpaces) {
    if (row.target == t) return row.space;
  }
  return Space::kMegatron;  // Megatron-Bridge runs Megatron-Core
}

Strategy as_configured(Space space, const Strategy& base, const ModelSpec& m,
                       const ClusterSpec& c) {
  const std::optional<Target> target = target_of(space);
  if (!target || !leaves_the_model(*target)) return base;
  Strategy told = base;
  for (const TargetRule& rule : target_rules(*target)) {
    Findings broken;
    rule.check({told, m, c}, broken);
    if (broken.has_errors() && rule.mend != nullptr) rule.mend(told, m);
  }
  Strategy configured = base;
  configured.master_weights = told.master_weights;
  configured.grad_dtype = told.grad_dtype;
  configured.optimizer_dtype = told.optimizer_dtype;
  if (base.packing == Packing::kNone) configured.packing = told.packing;
  configured.flash_attention = told.flash_attention;
  configured.runtime = told.runtime;
  if (*target == Target::kAxolotl) configured.runtime.fused_lora = fuses_adapters(base);
  return configured;
}

SpaceTarget::SpaceTarget(Space space, const ModelSpec& m, const ClusterSpec& c) : cluster_(c) {
  if (const std::optional<Target> target = target_of(space)) target_.emplace(*target, m);
}

std::string SpaceTarget::refusal_of(const Strategy& s) const {
  if (!target_) return {};
  const Target carrier = target_->carrier_of(s);
  for (const Finding& f : target_->findings(carrier, s, cluster_).all()) {
    if (is_about_preset(f)) continue;
    return std::string(name_of(carrier)) + " cannot express it (" + join_words(f.keys, ", ") + ")";
  }
  return {};
}

bool SpaceTarget::is_refused(const Strategy& s, std::span<const std::string_view> settled) const {
  if (!target_) return false;
  const auto is_settled = [&](const std::string& key) {
    return std::find(settled.begin(), settled.end(), key) != settled.end() || !is_searched(key);
  };
  return target_->has_finding(target_->carrier_of(s), s, cluster_, [&](const Finding& f) {
    return !is_about_preset(f) && std::all_of(f.keys.begin(), f.keys.end(), is_settled);
  });
}

Diagnostics hopeless_for(Space space, const Strategy& s, const ModelSpec& m, const ClusterSpec& c) {
  const std::optional<Target> target = target_of(space);
  Diagnostics problems;
  if (!target) return problems;
  for (const Finding& f : target_findings(carrier_of(*target, s, m), s, m, c).all()) {
    const bool can_change = std::any_of(f.keys.begin(), f.keys.end(), is_searched);
    if (!can_change && !is_about_preset(f)) problems.push_back(f.diagnostic);
  }
  return problems;
}

}  // namespace meshplan
