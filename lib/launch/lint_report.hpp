#pragma once
// What every lint does: findings at the settings that they concern.
#include <optional>
#include <span>
#include <string>

#include "launch/imported_run.hpp"
#include "spec/cluster.hpp"
#include "spec/findings.hpp"

namespace meshplan {

// Where a key of a strategy or model stands in the files of a framework.
struct KeySetting {
  std::string_view key, setting;
};

class LintReport {
 public:
  // `file` is how diagnostics call the run where no setting is to be pointed at.
  LintReport(const ImportedRun& run, std::span<const KeySetting> settings, std::string file)
      : run_(run), settings_(settings), file_(std::move(file)) {}

  [[nodiscard]] bool has(std::string_view setting) const {
    return run_.places.find(setting) != run_.places.end();
  }
  void error(std::string_view at, std::string message, std::string hint = {}) {
    add(Severity::kError, at, std::move(message), std::move(hint));
  }
  void warning(std::string_view at, std::string message, std::string hint = {}) {
    add(Severity::kWarning, at, std::move(message), std::move(hint));
  }
  void note(std::string message) { add(Severity::kNote, {}, std::move(message), {}); }

  // The rules of lib/spec that the run breaks, each at the first setting that it concerns. What
  // needs a model or a cluster is asked where there is one.
  void take_rules(const std::optional<ClusterSpec>& cluster);

  // Warns where the innermost links do not join a whole tensor-parallel group.
  void warn_of_spread_tensor_group(std::string_view at, const std::optional<ClusterSpec>& cluster);

  // Further findings are only counted.
  [[nodiscard]] bool full() const { return all_.size() >= kMost; }
  [[nodiscard]] Diagnostics all() &&;

 private:
  void add(Severity severity, std::string_view at, std::string message, std::string hint);
  void take(const Findings& findings);

  const ImportedRun& run_;
  std::span<const KeySetting> settings_;
  std::string file_;
  static constexpr std::size_t kMost = 50;
  Diagnostics all_;
  std::size_t left_out_ = 0;
  Severity worst_left_out_ = Severity::kNote;
};

}  // namespace meshplan
