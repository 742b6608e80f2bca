#include "study/difference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/check.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

// Keys that are legal, or mean anything, only beside one another.
constexpr std::array<std::string_view, 2> kTensor{"tp", "sequence_parallel"};
constexpr std::array<std::string_view, 5> kPipeline{"pp", "schedule", "vp", "stage_layers",
                                                    "chunk_layers"};
constexpr std::array<std::string_view, 2> kContext{"cp", "cp_kind"};
constexpr std::array<std::string_view, 2> kExperts{"ep", "etp"};
constexpr std::array<std::string_view, 2> kSharding{"zero", "zero_group"};
constexpr auto kMemory = std::to_array<std::string_view>(
    {"recompute", "recompute_modules", "recompute_layers", "offload.optimizer",
     "offload.optimizer_fraction", "offload.master_weights", "offload.overlap_copies",
     "offload.weights", "offload.activations", "offload.modules", "offload.activation_fraction"});
constexpr auto kStages = std::to_array<std::string_view>(
    {"pp", "schedule", "vp", "stage_layers", "chunk_layers", "recompute", "recompute_modules",
     "recompute_layers", "offload.optimizer", "offload.optimizer_fraction",
     "offload.master_weights", "offload.overlap_copies", "offload.weights", "offload.activations",
     "offload.modules", "offload.activation_fraction"});
constexpr std::array<std::span<const std::string_view>, 4> kOthers{kTensor, kContext, kExperts,
                                                                   kSharding};
// Of the workload, or what the other keys leave over.
constexpr std::array<std::string_view, 4> kNotCompared{"framework", "global_batch", "seq_len",
                                                       "dp"};

bool contains(std::span<const std::string_view> keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

void copy_key(Strategy& to, const Strategy& from, std::string_view key) {
  for_each_key(to, [&](std::string_view k, auto& target) {
    if (k != key) return;
    for_each_key(from, [&](std::string_view f, const auto& source) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(target)>,
                                   std::remove_cvref_t<decltype(source)>>) {
        if (f == key) target = source;
      }
    });
  });
}

bool recomputes(const Strategy& s) { return s.recompute == Recompute::kFull; }

// The keys of a group in which the two strategies differ.
std::vector<std::string> differing(const Strategy& a, const Strategy& b,
                                   std::span<const std::string_view> keys) {
  std::vector<std::string> names;
  for (const std::string_view key : keys) {
    const bool says_nothing = key == "recompute_layers" && !recomputes(a) && !recomputes(b);
    if (!says_nothing && value_text(a, key) != value_text(b, key)) names.emplace_back(key);
  }
  return names;
}

class Changer {
 public:
  Changer(const ModelSpec& m, const ClusterSpec& c, const Strategy& given, const Strategy& best)
      : model_(m), cluster_(c), given_(given), best_(best) {}

  std::vector<KeyChange> run() {
    if (given_.pp != best_.pp && (recomputes(given_) || recomputes(best_))) {
      try_keys(kStages);  // counts per pipeline rank belong to their pipeline
    } else {
      try_keys(kPipeline);
      try_keys(kMemory);
    }
    for (const std::span<const std::string_view> group : kOthers) try_keys(group);
    for (const std::string_view& key : strategy_keys()) {
      const bool grouped =
          contains(kStages, key) ||
          std::any_of(kOthers.begin(), kOthers.end(), [&](std::span<const std::string_view> group) {
            return contains(group, key);
          });
      if (!grouped && !contains(kNotCompared, key)) try_keys(std::span(&key, 1));
    }
    std::stable_sort(changes_.begin(), changes_.end(),
                     [](const KeyChange& a, const KeyChange& b) { return rank(a) < rank(b); });
    return std::move(changes_);
  }

 private:
  void try_keys(std::span<const std::string_view> group) {
    KeyChange change;
    change.keys = differing(given_, best_, group);
    if (change.keys.empty()) return;
    Strategy s = given_;
    s.dp = 0;
    for (const std::string& key : change.keys) copy_key(s, best_, key);
    // Lists of another pipeline are derived again: without full recomputation they say nothing.
    if (s.recompute_layers.size() != static_cast<std::size_t>(s.pp)) s.recompute_layers.clear();
    EvaluateOptions options;
    options.with_remedies = false;
    change.verdict = evaluate(model_, cluster_, s, options);
    change.strategy = is_legal(change.verdict) ? complete(std::move(s), model_, cluster_) : s;
    changes_.push_back(std::move(change));
  }

  static bool is_legal(const Verdict& v) {
    return v.feasible() || v.infeasible().reason != InfeasibleReason::kIllegal;
  }

  // Fitting plans by time, then what does not fit by what is missing, then what is illegal.
  static std::pair<int, double> rank(const KeyChange& change) {
    if (change.verdict.feasible()) return {0, change.verdict.cost().step_time.si()};
    if (is_legal(change.verdict)) return {1, change.verdict.infeasible().shortfall.si()};
    return {2, 0};
  }

  const ModelSpec& model_;
  const ClusterSpec& cluster_;
  const Strategy& given_;
  const Strategy& best_;
  std::vector<KeyChange> changes_;
};

}  // namespace

TimeTerms difference_of(const TimeTerms& given, const TimeTerms& best) {
  TimeTerms d;
  d.compute = given.compute - best.compute;
  d.recompute = given.recompute - best.recompute;
  d.tp_comm_exposed = given.tp_comm_exposed - best.tp_comm_exposed;
  d.cp_comm_exposed = given.cp_comm_exposed - best.cp_comm_exposed;
  d.ep_comm_exposed = given.ep_comm_exposed - best.ep_comm_exposed;
  d.pp_comm_exposed = given.pp_comm_exposed - best.pp_comm_exposed;
  d.pp_bubble = given.pp_bubble - best.pp_bubble;
  d.dp_comm_exposed = given.dp_comm_exposed - best.dp_comm_exposed;
  d.optimizer = given.optimizer - best.optimizer;
  d.uneven = given.uneven - best.uneven;
  d.other = given.other - best.other;
  return d;
}

Difference difference(const ModelSpec& m, const ClusterSpec& c, const PlanCost& best,
                      const Strategy& given) {
  Difference d;
  d.best = best;
  d.verdict = evaluate(m, c, given);
  d.given = given;
  if (!d.verdict.feasible() && d.verdict.infeasible().reason == InfeasibleReason::kIllegal) {
    return d;
  }
  d.given = complete(given, m, c);
  if (d.verdict.feasible()) {
    d.cost = d.verdict.cost();
  } else {
    EvaluateOptions options;
    options.ignore_memory = true;
    options.with_remedies = false;
    d.cost = evaluate(m, c, d.given, options).cost();
  }
  d.terms = difference_of(d.cost->time, best.time);
  d.step_time = total(d.terms);
  PLAN_CHECK(std::abs((d.cost->step_time - best.step_time - d.step_time).si()) <=
             1e-9 * d.cost->step_time.si());
  d.changes = Changer(m, c, d.given, best.strategy).run();
  return d;
}

}  // namespace meshplan
