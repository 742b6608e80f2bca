#include "launch/lint_report.hpp"

#include "model/rules.hpp"

namespace meshplan {

void LintReport::add(Severity severity, std::string_view at, std::string message,
                     std::string hint) {
  if (full()) {
    ++left_out_;
    worst_left_out_ = std::min(worst_left_out_, severity);
    return;
  }
  Diagnostic d = error_at({file_}, std::move(message), std::move(hint));
  d.severity = severity;
  const auto place = run_.places.find(at);
  if (place != run_.places.end()) {
    d.where = place->second.where;
    d.source_line = *place->second.source_line;
  }
  all_.push_back(std::move(d));
}

Diagnostics LintReport::all() && {
  if (left_out_ > 0) {
    Diagnostic d = error_at({file_}, "and " + std::to_string(left_out_) + " more");
    d.severity = worst_left_out_;
    all_.push_back(std::move(d));
  }
  return std::move(all_);
}

void LintReport::take(const Findings& findings) {
  for (const Finding& f : findings.all()) {
    std::string_view at;
    for (const std::string& key : f.keys) {
      for (const KeySetting& row : settings_) {
        if (at.empty() && row.key == key && has(row.setting)) at = row.setting;
      }
    }
    add(f.diagnostic.severity, at, f.diagnostic.message, f.diagnostic.hint);
  }
}

void LintReport::warn_of_spread_tensor_group(std::string_view at,
                                             const std::optional<ClusterSpec>& cluster) {
  const std::int64_t tp = run_.strategy.tp;
  if (!cluster || tp <= cluster->gpus_per_node) return;
  if (!cluster->levels.empty() && cluster->levels.front().span >= tp) return;
  warning(at, "tensor parallelism of " + std::to_string(tp) + " crosses nodes of " +
                  std::to_string(cluster->gpus_per_node) + " devices");
}

void LintReport::take_rules(const std::optional<ClusterSpec>& cluster) {
  Strategy s = run_.strategy;
  // A length that every rule passes stands for one that is not stated.
  constexpr std::int64_t kAnyLength = 1024;
  if (s.dp == 0) s.dp = 1;  // as many as there are devices, which nobody states
  if (s.seq_len == 0) s.seq_len = kAnyLength * s.tp * s.cp;
  if (!run_.knows_model) {
    take(findings(s));
    return;
  }
  const Findings own = findings(run_.model);
  take(own);
  if (own.has_errors()) return;
  if (!cluster) {
    take(findings(s));
    return;
  }
  const Findings all = findings(s, run_.model, *cluster);
  take(all);
  if (!all.has_errors()) {
    take(target_findings(run_.target, s, run_.model, *cluster));
  }
}

}  // namespace meshplan
