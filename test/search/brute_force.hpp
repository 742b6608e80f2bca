#pragma once
// Every strategy of a request, with lib/spec's rules and lib/cost alone: what the search must find.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

#include "cost/chunks.hpp"
#include "cost/step.hpp"
#include "cost/step_oracle.hpp"
#include "cost/uncertainty.hpp"
#include "partition/compositions.hpp"
#include "search/candidate.hpp"
#include "search/cases.hpp"
#include "search/division_rank.hpp"
#include "search/divisions.hpp"
#include "search/rank_orders.hpp"

namespace meshplan::search_test {

struct Tried {
  std::vector<Found> plans;  // best of each choice of keys, ranked
  std::int64_t legal = 0;    // strategies that no rule forbids, partitions not counted
  // Of all legal strategies and divisions of the space, nothing or everything recomputed, whether
  // they fit or not.
  Bytes least_peak;
};

class Brute {
 public:
  // `everything`: full recomputation is that of every layer, as always where memory is minimised.
  explicit Brute(const Case& c, bool extremes, bool everything = false)
      : c_(c),
        extremes_(extremes),
        by_memory_(c.request.objective == Objective::kMemory),
        everything_(everything || by_memory_) {}

  Tried run() {
    tried_.least_peak = Bytes{std::int64_t{1} << 60};
    const std::int64_t gpus = num_gpus(c_.cluster);
    for (std::int64_t tp = 1; tp <= gpus; ++tp) {
      for (std::int64_t pp = 1; tp * pp <= gpus; ++pp) {
        for (std::int64_t cp = 1; tp * pp * cp <= gpus; ++cp) {
          if (gpus % (tp * pp * cp) != 0) continue;
          Strategy s = c_.request.base;
          s.tp = tp, s.pp = pp, s.cp = cp, s.dp = gpus / (tp * pp * cp);
          try_batches(s);
        }
      }
    }
    std::sort(tried_.plans.begin(), tried_.plans.end(), [&](const Found& a, const Found& b) {
      return ranks_before(a, b, c_.request.objective);
    });
    return std::move(tried_);
  }

 private:
  void try_batches(Strategy s) {
    for (s.micro_batch = 1; s.micro_batch <= s.global_batch; ++s.micro_batch) {
      if (s.global_batch % (s.dp * s.micro_batch) != 0) continue;
      for (const CpKind kind : {CpKind::kRing, CpKind::kAllGather, CpKind::kUlysses}) {
        if (s.cp == 1 && kind != CpKind::kRing) continue;
        s.cp_kind = kind;
        try_splits(s);
      }
    }
  }

  void try_splits(Strategy s) {
    const std::int64_t most = c_.model.moe ? num_gpus(c_.cluster) : 1;
    for (const bool sequence_parallel : {false, true}) {
      if (sequence_parallel && s.tp == 1) continue;
      s.sequence_parallel = sequence_parallel;
      for (s.etp = 1; s.etp <= (c_.model.moe ? s.tp : 1); ++s.etp) {
        if (s.tp % s.etp != 0) continue;
        for (s.ep = 1; s.ep <= most; ++s.ep) {
          if (s.tp * s.cp * s.dp % (s.ep * s.etp) == 0) try_dispatchers(s);
        }
      }
    }
  }

  // Both ways to send tokens where proxies send those of one of them.
  void try_dispatchers(Strategy s) {
    try_overlaps(s);
    const bool proxied = c_.cluster.levels.back().token_message > Seconds{0};
    if (!c_.model.moe || s.ep == 1 || !proxied) return;
    s.runtime.flex_dispatcher = !s.runtime.flex_dispatcher;
    try_overlaps(s);
  }

  // Dispatch beside another microbatch's layers, where Megatron-Core has it.
  void try_overlaps(Strategy s) {
    try_inputs(s);
    const bool possible = c_.model.moe && s.ep > 1 && s.framework == Framework::kMegatron;
    if (!possible || s.runtime.allgather_dispatcher || limits("overlap.ep")) return;
    s.overlap.ep = true;
    try_inputs(s);
  }

  // Adapters that gather their inputs again, where Megatron-Bridge has them.
  void try_inputs(Strategy s) {
    try_orders(s);
    const bool possible = has_adapters(s) && s.framework == Framework::kMegatron;
    if (!possible || s.lora.input_regather || limits("lora.input_regather")) return;
    s.lora.input_regather = true;
    if (regathers_input(s)) try_orders(s);
  }

  // The layouts of devices are the same without a pipeline, without replicas, and in one node
  // unless its links are halved between two sockets.
  void try_orders(Strategy s) {
    const bool same = s.pp == 1 || s.dp == 1 || is_alike();
    const bool all = frees("order") && !is_alike();
    const std::vector<RankOrder> two{kDefaultOrder, kPipelineInside};
    for (const RankOrder& order : all ? every_order(s) : two) {
      if (!all && same && order != kDefaultOrder) continue;
      s.order = order;
      try_shardings(s);
    }
  }

  [[nodiscard]] bool is_alike() const {
    return c_.cluster.nodes == 1 && c_.cluster.levels.front().kind != LinkKind::kPcie;
  }

  [[nodiscard]] bool limits(std::string_view key) const {
    return std::any_of(c_.request.limits.begin(), c_.request.limits.end(),
                       [&](const Limit& l) { return l.key == key; });
  }
  [[nodiscard]] bool frees(std::string_view key) const {
    return std::any_of(c_.request.limits.begin(), c_.request.limits.end(),
                       [&](const Limit& l) { return l.key == key && l.op == LimitOp::kFree; });
  }

  void try_shardings(Strategy s) {
    const std::int64_t replicas = s.dp * s.cp;
    const bool nothing_to_shard = replicas == 1 && (!c_.model.moe || s.tp == 1);
    bool first = true;
    for (s.zero = 0; s.zero <= 3; ++s.zero) {
      std::vector<std::int64_t> groups{0};
      s.zero_group = 0;
      if (const std::int64_t node = in_first_node(s); s.zero > 0 && node > 1 && node < replicas) {
        if (replicas % node == 0) groups.push_back(node);
      }
      if (frees("zero_group") && s.zero > 0) {
        groups = {0};
        for (std::int64_t n = 2; n < replicas; ++n)
          if (replicas % n == 0) groups.push_back(n);
      }
      for (const std::int64_t group : groups) {
        s.zero_group = group;
        if (!keeps(s, {"zero", "zero_group", "order"})) continue;
        if (nothing_to_shard && !first) continue;
        first = false;
        try_schedules(s);
      }
    }
  }

  // Of the ranks that hold the same parameters as rank 0, those in its node.
  std::int64_t in_first_node(const Strategy& s) const {
    std::int64_t n = 0;
    for (const std::int64_t rank : group_members(s, Group::kDpCp, 0)) {
      n += rank < c_.cluster.gpus_per_node ? 1 : 0;
    }
    return n;
  }

  void try_schedules(Strategy s) {
    if (s.pp == 1) {
      for (const Schedule schedule : {Schedule::k1f1b, Schedule::kGpipe}) {
        s.schedule = schedule;
        s.vp = 1;
        if (!keeps(s, {"schedule", "vp"})) continue;
        try_options(s);
        return;
      }
      return;
    }
    const bool asked_for = limits("schedule");
    for (const auto& row : NameTable<Schedule>::rows) {
      if (!traits_of(row.value).searched && !asked_for) continue;
      for (s.vp = 1; s.vp <= c_.model.num_layers + 2; ++s.vp) {
        s.schedule = row.value;
        try_options(s);
      }
    }
  }

  // With every list of modules where the key is freed, and those that a limit states.
  std::vector<std::pair<Recompute, RecomputeModules>> recomputations() const {
    std::vector<std::pair<Recompute, RecomputeModules>> all{
        {Recompute::kNone, {}}, {Recompute::kSelective, {}}, {Recompute::kFull, {}}};
    for (const Limit& limit : c_.request.limits) {
      if (limit.key != "recompute_modules") continue;
      for (const KeyValue& value : limit.values)
        all.emplace_back(Recompute::kSelective, std::get<RecomputeModules>(value));
    }
    if (!frees("recompute_modules")) return all;
    for (const RecomputeModules& list : every_list()) all.emplace_back(Recompute::kSelective, list);
    return all;
  }

  // Limits on what try_options() does not vary are asked once, which is most of their time.
  [[nodiscard]] static bool is_varied(std::string_view key) {
    return key.starts_with("offload.") || key.starts_with("recompute") || key == "stage_layers";
  }
  bool keeps_limits(const Strategy& s, bool varied) const {
    return std::all_of(c_.request.limits.begin(), c_.request.limits.end(), [&](const Limit& l) {
      return is_varied(l.key) != varied || satisfies(s, l);
    });
  }

  // The best of all options. What a whole evaluation alone rules out is asked of the best ones.
  void try_options(Strategy s) {
    if (!keeps_limits(s, false)) return;
    std::vector<Found> options;
    // Activations of no layer, of all (0), or of so many go to the host.
    for (std::int64_t on_host = -1; on_host < c_.model.num_layers; ++on_host) {
      for (const auto& [mode, modules] : recomputations()) {
        std::optional<BlockCosts> blocks;  // that the optimizer is offloaded changes no block
        for (const bool optimizer : {false, true}) {
          s.offload.optimizer = optimizer, s.offload.activations = on_host >= 0;
          s.offload.activation_layers = std::max<std::int64_t>(on_host, 0);
          if (on_host > 0 && (s.pp > 1 || mode != Recompute::kNone))
            continue;  // is_legal() says so
          s.recompute = mode, s.recompute_modules = modules;
          s.recompute_layers.clear(), s.stage_layers.clear();
          if (!keeps_limits(s, true)) continue;
          if (s.lora.input_regather && !regathers_input(s)) continue;
          const std::vector<List> divisions = legal_divisions(s);
          if (divisions.empty()) continue;
          if (on_host <= 0) ++tried_.legal;  // the space counts one that offloads
          if (!blocks) blocks = block_costs(c_.model, c_.cluster, s);
          if (const auto option = try_divisions(s, *blocks, divisions)) options.push_back(*option);
        }
      }
    }
    add_best(std::move(options));
  }

  void add_best(std::vector<Found> options) {
    std::sort(options.begin(), options.end(), [&](const Found& a, const Found& b) {
      return ranks_before(a, b, c_.request.objective);
    });
    EvaluateOptions whole;
    whole.with_remedies = false;
    for (const Found& option : options) {
      const Verdict verdict = evaluate(c_.model, c_.cluster, option.strategy, whole);
      if (!verdict.feasible()) continue;
      const PlanCost& plan = verdict.cost();
      tried_.plans.push_back({plan.strategy, plan.step_time, plan.memory().peak});
      return;
    }
  }

  // Layers per rank with which the strategy breaks no rule.
  std::vector<List> legal_divisions(Strategy s) const {
    std::vector<List> all, legal;
    List begun;
    compositions(c_.model.num_layers, s.pp, begun, all);
    for (const List& layers : all) {
      // nanotron may leave ranks before the last without layers; the search never does.
      const bool hollow = layers.size() > 2 && std::any_of(layers.begin() + 1, layers.end() - 1,
                                                           [](std::int64_t n) { return n == 0; });
      if (hollow) continue;
      s.stage_layers = layers;
      if (is_legal(s, c_.model, c_.cluster)) legal.push_back(layers);
    }
    return legal;
  }

  // Layers that each rank recomputes: none, or the fewest with which it fits.
  std::optional<List> counts(const Strategy& s, const BlockCosts& blocks) const {
    Strategy with = s;
    with.recompute_layers.assign(static_cast<std::size_t>(s.pp), 0);
    if (s.recompute != Recompute::kFull || everything_) {
      if (s.recompute == Recompute::kFull) with.recompute_layers = s.stage_layers;
      return fits(with, blocks) ? std::optional(with.recompute_layers) : std::nullopt;
    }
    if (s.schedule == Schedule::kDualPipe) return counts_of_pairs(with, blocks);
    for (std::size_t r = 0; r < with.recompute_layers.size(); ++r) {
      std::int64_t& n = with.recompute_layers[r];
      while (!rank_fits(with, blocks, r) && n < s.stage_layers[r]) ++n;
      if (!rank_fits(with, blocks, r)) return std::nullopt;
    }
    return with.recompute_layers;
  }

  // Ranks r and p - 1 - r hold the same two chunks: of all numbers that fit the least time, then
  // the fewest of the first.
  std::optional<List> counts_of_pairs(Strategy s, const BlockCosts& blocks) const {
    for (std::size_t r = 0; r < s.stage_layers.size() / 2; ++r) {
      const std::size_t far = s.stage_layers.size() - 1 - r;
      std::optional<std::pair<double, List>> best;
      for (std::int64_t a = 0; a <= s.stage_layers[r]; ++a) {
        for (std::int64_t b = 0; b <= s.stage_layers[far]; ++b) {
          s.recompute_layers[r] = a, s.recompute_layers[far] = b;
          if (!rank_fits(s, blocks, r) || !rank_fits(s, blocks, far)) continue;
          const double time = stage_times(s, blocks)[r];
          if (best && time >= best->first * (1 - 1e-10)) continue;
          best = {time, s.recompute_layers};
        }
      }
      if (!best) return std::nullopt;
      s.recompute_layers = best->second;
    }
    return s.recompute_layers;
  }

 public:
  bool rank_fits(const Strategy& s, const BlockCosts& blocks, std::size_t rank) const {
    return holds(test::StepOracle(c_.model, c_.cluster, s, blocks), rank);
  }

  bool fits(const Strategy& s, const BlockCosts& blocks) const {
    const test::StepOracle step(c_.model, c_.cluster, s, blocks);
    for (std::size_t r = 0; r < s.stage_layers.size(); ++r) {
      if (!holds(step, r)) return false;
    }
    return true;
  }

  std::vector<double> stage_times(const Strategy& s, const BlockCosts& blocks) const {
    const test::StepOracle step(c_.model, c_.cluster, s, blocks);
    std::vector<double> times;
    for (std::int64_t r = 0; r < s.pp; ++r) times.push_back(step.pass_time(r).si());
    return times;
  }

 private:
  bool holds(const test::StepOracle& step, std::size_t rank) const {
    const auto r = static_cast<std::int64_t>(rank);
    const MemoryBreakdown memory = step.memory(r);
    if (memory.peak > memory.capacity) return false;
    if (c_.request.memory_risk < 1 && !c_.request.ignore_activations &&
        out_of_memory_probability(memory) > c_.request.memory_risk) {
      return false;
    }
    return c_.cluster.host_memory == Bytes{} ||
           step.host(r) * c_.cluster.gpus_per_node <= c_.cluster.host_memory;
  }

  DivisionRank rank_of(const Strategy& s, const BlockCosts& blocks) const {
    DivisionRank rank;
    std::vector<double> times = stage_times(s, blocks);
    const bool pairs = s.schedule == Schedule::kDualPipe;
    if (pairs) times.resize(times.size() / 2);
    rank.largest = *std::max_element(times.begin(), times.end());
    const double weight = static_cast<double>(num_microbatches(s) * s.vp - 1);
    rank.cost = std::accumulate(times.begin(), times.end(), 0.0) + weight * rank.largest;
    for (std::size_t r = 0; r < times.size(); ++r) {
      rank.order.push_back(s.stage_layers[r]);
      if (pairs) rank.order.push_back(s.stage_layers[s.stage_layers.size() - 1 - r]);
    }
    for (const std::int64_t n : rank.order) rank.squares += n * n;
    return rank;
  }

  // Where memory is the objective: bytes of the stages instead of seconds, and the largest first.
  DivisionRank memory_rank_of(const Strategy& s, const BlockCosts& blocks) const {
    DivisionRank rank;
    const test::StepOracle step(c_.model, c_.cluster, s, blocks);
    const bool pairs = s.schedule == Schedule::kDualPipe;
    for (std::int64_t r = 0; r < (pairs ? s.pp / 2 : s.pp); ++r) {
      double bytes = 0;
      for (const std::int64_t mine : {r, pairs ? s.pp - 1 - r : r}) {
        bytes = std::max(bytes, step.memory(mine).peak.si());
      }
      rank.largest = std::max(rank.largest, bytes), rank.cost += bytes;
      rank.order.push_back(s.stage_layers[static_cast<std::size_t>(r)]);
      if (pairs) rank.order.push_back(s.stage_layers[static_cast<std::size_t>(s.pp - 1 - r)]);
    }
    for (const std::int64_t n : rank.order) rank.squares += n * n;
    return rank;
  }

  std::optional<Found> try_divisions(Strategy s, const BlockCosts& blocks,
                                     const std::vector<List>& divisions) {
    bool is_chosen = false;
    double chosen_time = 0;
    std::optional<DivisionRank> chosen_rank;  // of times only where two are equally long
    Strategy chosen;
    for (const List& layers : divisions) {
      s.stage_layers = layers;
      s.recompute_layers.assign(layers.size(), 0);
      if (!is_in_space(s, c_.model)) continue;
      if (extremes_) note_extremes(s, blocks);
      const std::optional<List> recomputed = counts(s, blocks);
      if (!recomputed) continue;
      s.recompute_layers = *recomputed;
      const List& n = s.recompute_layers;
      const bool some = std::any_of(n.begin(), n.end(), [](std::int64_t i) { return i > 0; });
      if (s.recompute == Recompute::kFull && !some) continue;
      const double time = by_memory_ ? 0 : cost_of(c_.model, c_.cluster, s, blocks).step_time.si();
      std::optional<DivisionRank> rank;
      if (by_memory_) {
        rank = memory_rank_of(s, blocks);
        if (is_chosen && !needs_less(*rank, *chosen_rank)) continue;
      } else if (is_chosen) {
        const bool same = std::abs(time - chosen_time) <= 1e-9 * chosen_time;
        if (!same && time > chosen_time) continue;
        if (same) {
          if (!chosen_rank) chosen_rank = rank_of(chosen, blocks);
          rank = rank_of(s, blocks);
          if (!before(*rank, *chosen_rank)) continue;
        }
      }
      is_chosen = true, chosen_rank = std::move(rank), chosen_time = time;
      chosen = s;
    }
    if (!is_chosen) return std::nullopt;
    const PlanCost plan = cost_of(c_.model, c_.cluster, chosen, blocks);
    return Found{plan.strategy, plan.step_time, plan.memory().peak};
  }

  // With nothing recomputed, and with everything.
  void note_extremes(Strategy s, const BlockCosts& blocks) {
    for (const bool all : {false, true}) {
      if (all != (s.recompute == Recompute::kFull)) continue;
      s.recompute_layers = s.stage_layers;
      if (!all) s.recompute_layers.assign(s.stage_layers.size(), 0);
      const PlanCost plan = cost_of(c_.model, c_.cluster, s, blocks);
      tried_.least_peak = std::min(tried_.least_peak, plan.memory().peak);
    }
  }

  bool keeps(const Strategy& s, std::initializer_list<std::string_view> keys) const {
    return std::all_of(c_.request.limits.begin(), c_.request.limits.end(), [&](const Limit& l) {
      return std::find(keys.begin(), keys.end(), l.key) == keys.end() || satisfies(s, l);
    });
  }

  const Case& c_;
  bool extremes_, by_memory_, everything_;
  Tried tried_;
};

// `extremes`: fills the last one as well, which takes longer.
inline Tried try_everything(const Case& c, bool extremes) { return Brute(c, extremes).run(); }

}  // namespace meshplan::search_test
