#include "space/fixed_keys.hpp"

#include <algorithm>
#include <array>

#include "frameworks/assign.hpp"
#include "model/rules.hpp"
#include "space/partial_strategy.hpp"
#include "space/target.hpp"
#include "spec/findings.hpp"
#include "spec/module_lists.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

constexpr std::array<std::string_view, 19> kSearched{"tp",
                                                     "pp",
                                                     "vp",
                                                     "cp",
                                                     "cp_kind",
                                                     "ep",
                                                     "etp",
                                                     "dp",
                                                     "zero",
                                                     "zero_group",
                                                     "sequence_parallel",
                                                     "micro_batch",
                                                     "schedule",
                                                     "stage_layers",
                                                     "recompute",
                                                     "recompute_layers",
                                                     "recompute_modules",
                                                     "offload.optimizer",
                                                     "offload.activations"};

// What `before` becomes under one limit on a key that is not searched.
std::vector<Strategy> limited(const std::vector<Strategy>& before, const Limit& limit) {
  std::vector<Strategy> after;
  for (const Strategy& s : before) {
    if (limit.op != LimitOp::kEqual) {
      if (satisfies(s, limit)) after.push_back(s);
      continue;
    }
    for (const KeyValue& value : limit.values) {
      Strategy changed = s;
      if (!assign(changed, limit.key, value)) continue;
      if (std::find(after.begin(), after.end(), changed) == after.end()) after.push_back(changed);
    }
  }
  return after;
}

// Every value of a key that is free.
std::vector<KeyValue> values_of(std::string_view key, const Strategy& base, const ModelSpec& m) {
  if (key != "offload.modules") return every_value(key);
  std::vector<KeyValue> all;
  for (const OffloadModules& list : offload_lists(m, base.runtime)) all.emplace_back(list);
  return all;
}

}  // namespace

bool is_searched(std::string_view key) {
  return key == "order" || std::find(kSearched.begin(), kSearched.end(), key) != kSearched.end();
}

Result<std::vector<Strategy>> fixed_bases(const Strategy& base, const std::vector<Limit>& limits,
                                          const ModelSpec& m) {
  std::vector<Limit> ordered;  // a framework's preset comes before the keys that override it
  for (const Limit& limit : limits) {
    if (is_searched(limit.key)) continue;
    if (limit.key == "chunk_layers") {
      return error(
          "'chunk_layers' cannot be limited: a search spreads a rank's layers evenly over "
          "its chunks",
          "limit 'stage_layers', or give 'meshplan estimate' the whole strategy");
    }
    ordered.push_back(limit);
    if (limit.op != LimitOp::kFree) continue;
    ordered.back() = {limit.key, LimitOp::kEqual, values_of(limit.key, base, m)};
    if (ordered.back().values.empty()) {
      return error("'" + limit.key + "' has no list of values to search",
                   "state some: --fix '" + limit.key + "=A|B'");
    }
  }
  std::stable_sort(ordered.begin(), ordered.end(), [](const Limit& a, const Limit& b) {
    const auto place = [](const Limit& l) {
      return l.key == "framework" ? 0 : l.key == "release" ? 1 : 2;
    };
    return place(a) < place(b);
  });
  std::vector<Strategy> bases{base};
  for (const Limit& limit : ordered) {
    std::vector<Strategy> left = limited(bases, limit);
    if (left.empty()) {
      return error("'" + to_text(limit) + "' excludes " + limit.key + "=" +
                       value_text(bases.front(), limit.key) + ", which the search does not vary",
                   "state the value with --fix " + limit.key + "=...");
    }
    bases = std::move(left);
  }
  // A key named twice must satisfy both.
  std::erase_if(bases, [&](const Strategy& s) { return !satisfies(s, ordered); });
  if (bases.empty()) return error("the fixed keys contradict each other");
  return bases;
}

Diagnostics hopeless_keys(Space space, const Strategy& base, const ModelSpec& m,
                          const ClusterSpec& c) {
  Strategy s = with_partial(base, PartialStrategy{});
  s.dp = num_gpus(c);
  Findings found = findings(s);
  if (!found.has_errors()) {
    s.global_batch = s.dp * s.micro_batch;
    found = findings(s, m, c);
  }
  Diagnostics problems = hopeless_for(space, s, m, c);
  for (const Finding& finding : found.all()) {
    if (finding.diagnostic.severity != Severity::kError) continue;
    if (std::none_of(finding.keys.begin(), finding.keys.end(), is_searched)) {
      problems.push_back(finding.diagnostic);
    }
  }
  return problems;
}

}  // namespace meshplan
