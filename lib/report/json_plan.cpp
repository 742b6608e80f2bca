#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.hpp"
#include "cost/order.hpp"
#include "cost/uncertainty.hpp"
#include "frameworks/preset.hpp"
#include "layout/group_names.hpp"
#include "report/json_value.hpp"
#include "report/rates.hpp"
#include "report/terms.hpp"
#include "report/uncertainty_text.hpp"

namespace meshplan {
namespace {

constexpr std::int64_t kFirstRanks = 64;  // of a group

Json communication_json(const PlanCost& p, const ClusterSpec& c) {
  Json json = Json::array();
  for (const CommEntry& e : p.communication) {
    PLAN_CHECK(e.level < c.levels.size());
    json.push_back({{"dimension", std::string(name_of(e.dimension))},
                    {"operation", std::string(name_of(e.operation))},
                    {"group_size", e.group_size},
                    {"level", c.levels[e.level].name},
                    {"bytes", e.bytes.count()},
                    {"count_per_step", number(e.count_per_step)},
                    {"time_each_s", number(e.time_each.si())},
                    {"exposed_s", number(e.exposed.si())}});
  }
  return json;
}

Json stages_json(const PlanCost& p) {
  Json json = Json::array();
  for (const StageCost& s : p.stages) {
    Json kinds = Json::array();
    for (const LayerKindCount& k : s.kinds) {
      kinds.push_back({{"kind", k.kind}, {"layers", k.layers}});
    }
    json.push_back({{"layers", s.layers},
                    {"kinds", kinds},
                    {"recomputed_layers", s.recomputed_layers},
                    {"embedding", s.embedding},
                    {"head", s.head},
                    {"forward_s", number(s.forward.si())},
                    {"backward_s", number(s.backward.si())},
                    {"in_flight", s.in_flight},
                    {"parameters", s.parameters},
                    {"peak_bytes", s.memory.peak.count()}});
    if (s.cached > Bytes{0}) json.back()["cached_bytes"] = s.cached.count();
  }
  return json;
}

Json extrapolated_json(const Extrapolation& beyond) {
  return {{"device", beyond.device},
          {"framework", beyond.framework},
          {"gpu_doublings", number(beyond.doublings)}};
}

Json tipping_json(const TippingTerm& tipping) {
  return {{"term", row_of(kMemoryTerms, tipping.term).key},
          {"growth_that_exceeds", number(tipping.growth)}};
}

}  // namespace

Json time_json(const TimeTerms& t) {
  Json json = Json::object();
  for (const TimeTermRow& row : kTimeTerms) json[row.key] = number((t.*row.term).si());
  return json;
}

Json first_ranks(std::vector<std::int64_t> ranks) {
  ranks.resize(std::min(ranks.size(), static_cast<std::size_t>(kFirstRanks)));
  return ranks;
}

Json against_best_json(const PlanCost& best, const PlanCost& p) {
  const auto term = separating_term(best, p);
  return {{"best_is_faster_probability", number(probability_faster(best, p))},
          {"practically_tied", practically_tied(best, p)},
          {"separating_term", row_of(kTimeTerms, term).key},
          {"difference_s", number((p.time.*term - best.time.*term).si())},
          {"measure", std::string(how_to_measure(term))}};
}

Json memory_json(const std::vector<StageCost>& stages) {
  Json json = Json::array();
  for (const StageCost& s : stages) {
    Json terms = Json::object();
    for (const MemoryTermRow& row : kMemoryTerms) terms[row.key] = (s.memory.*row.term).count();
    json.push_back(std::move(terms));
  }
  return json;
}

Json placement_json(const Strategy& s, const ClusterSpec& c) {
  Json groups = Json::array();
  for (const GroupName& row : kGroupNames) {
    const GroupShape shape = group_shape(s, c, row.group);
    PLAN_CHECK(shape.level < c.levels.size());
    // A group of one rank crosses no link.
    const Json level = shape.size > 1 ? Json(c.levels[shape.level].name) : Json(nullptr);
    groups.push_back({{"kind", row.name},
                      {"size", shape.size},
                      {"stride", shape.stride},
                      {"level", level},
                      {"first_ranks", group_members(s, row.group, 0, kFirstRanks)}});
  }
  return {{"order", strategy_json(s).at("order")}, {"groups", std::move(groups)}};
}

Json plan_json(const PlanCost& p, const ClusterSpec& c, std::size_t rank) {
  PLAN_CHECK(std::abs(total(p.time).si() - p.step_time.si()) <= 1e-9 * p.step_time.si());
  const Rates r = rates(p, c);
  const StepTimeInterval interval = step_time_interval(c, p);
  const MemoryInterval memory = memory_interval(p.memory());
  Json json{{"rank", rank},
            {"group", rank},
            {"strategy", strategy_json(p.strategy)},
            {"strategy_text", to_text(p.strategy)},
            {"step_time_s", number(p.step_time.si())},
            {"step_time_interval_s", {number(interval.low.si()), number(interval.high.si())}},
            {"step_time_regime", std::string(name_of(regime_of(p)))},
            {"extrapolated", extrapolated_json(extrapolation_of(c, p))},
            {"tokens_per_s", number(r.tokens_per_s)},
            {"tokens_per_s_per_gpu", number(r.tokens_per_s_per_gpu)},
            {"model_tflops_per_gpu", number(r.model_flops_per_gpu.si() / 1e12)},
            {"mfu", number(p.mfu)},
            {"mfu_causal", number(p.mfu_causal)},
            {"mfu_convention", "attention in full"},
            {"hfu", number(p.hfu)},
            {"memory", memory_json(p.stages)},
            {"memory_ledger", ledger_json(p.stages)},
            {"fullest_stage", p.fullest_stage},
            {"memory_interval_bytes", {memory.low.count(), memory.high.count()}},
            {"out_of_memory_probability", number(out_of_memory_probability(p.memory()))},
            {"out_of_memory_term", tipping_json(tipping_term(p.memory()))},
            {"time", time_json(p.time)},
            {"bubble_fraction", number(p.bubble_fraction)},
            {"communication", communication_json(p, c)},
            {"stages", stages_json(p)},
            {"placement", placement_json(p.strategy, c)}};
  if (p.like_runs.any()) json["like_runs"] = like_runs_json(p);
  if (r.usd_per_step) json["usd_per_step"] = number(*r.usd_per_step);
  json["warnings"] = p.warnings;
  return json;
}

Json like_runs_json(const PlanCost& p) {
  return {{"step_time_s", number(p.expected_time().si())},
          {"factor", number(p.like_runs.factor)},
          {"interval_widening", number(p.like_runs.widening)}};
}

Json infeasible_json(const Verdict& verdict, const Strategy& s) {
  const Infeasible& i = verdict.infeasible();
  return {{"strategy", strategy_json(s)},
          {"strategy_text", to_text(s)},
          {"reason", std::string(name_of(i.reason))},
          {"messages", i.messages},
          {"shortfall_bytes", i.shortfall.count()},
          {"remedies", i.remedies},
          {"memory", memory_json(verdict.stages)},
          {"memory_ledger", ledger_json(verdict.stages)}};
}

}  // namespace meshplan
