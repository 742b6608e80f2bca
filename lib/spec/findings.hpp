#pragma once
// What is wrong with a value, and which of its keys are concerned: a reader that knows where each
// key stands in a file turns this into a diagnostic with a position.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.hpp"

namespace meshplan {

struct ModelSpec;
struct DeviceSpec;
struct ClusterSpec;
struct Strategy;

struct Finding {
  std::vector<std::string> keys;  // dotted, the one to point at first: "moe.num_experts"
  Diagnostic diagnostic;
};

struct IntegerRange {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
};

inline constexpr std::int64_t kMostClusterGpus = 1 << 24;  // of a cluster and of every degree

struct RealRange {
  double lowest = 0;
  double highest = 0;
};

class Findings {
 public:
  void error(std::vector<std::string> keys, std::string message, std::string hint = {});
  void warning(std::vector<std::string> keys, std::string message, std::string hint = {});

  // Each reports a value outside of its range (or one that is not finite) and says if it is inside.
  bool check(std::string_view key, std::int64_t value, IntegerRange range);
  bool check(std::string_view key, double value, RealRange range);

  [[nodiscard]] bool has_errors() const;
  [[nodiscard]] const std::vector<Finding>& all() const& { return all_; }
  [[nodiscard]] std::vector<Finding> all() && { return std::move(all_); }  // safe in a range-for
  [[nodiscard]] Diagnostics diagnostics() const;

 private:
  std::vector<Finding> all_;
};

// The rules behind validate(), with the keys they concern. Of models: model/rules.hpp.
[[nodiscard]] Findings findings(const DeviceSpec& d);
[[nodiscard]] Findings findings(const ClusterSpec& c);
// Of the strategy alone: values out of range and lists that contradict it.
[[nodiscard]] Findings findings(const Strategy& s);
// Against a model and a cluster as well.
[[nodiscard]] Findings findings(const Strategy& s, const ModelSpec& m, const ClusterSpec& c);

}  // namespace meshplan
