#include "report/json_study.hpp"

#include "frameworks/preset.hpp"
#include "report/rates.hpp"
#include "study/expert_spread.hpp"
#include "study/length_spread.hpp"

namespace meshplan {
namespace {

// A plan in a few numbers; the strategy leads to the rest.
Json brief(const PlanCost& p, const ClusterSpec& c) {
  const Rates r = rates(p, c);
  const MemoryBreakdown& memory = p.memory();
  Json json{{"strategy_text", to_text(p.strategy)},
            {"gpus", num_gpus(p.strategy)},
            {"step_time_s", number(p.step_time.si())},
            {"tokens_per_s", number(r.tokens_per_s)},
            {"mfu", number(p.mfu)},
            {"mfu_causal", number(p.mfu_causal)},
            {"peak_bytes", memory.peak.count()},
            {"headroom_bytes", memory.capacity.count() - memory.peak.count()}};
  if (r.usd_per_step) {
    json["usd_per_step"] = number(*r.usd_per_step);
    json["usd_per_billion_tokens"] = number(*r.usd_per_step / p.tokens_per_step * 1e9);
  }
  return json;
}

Json alternative_json(const Alternative& a, const ClusterSpec& c) {
  Json json{{"space", name_of(a.space)},
            {"memory_risk", number(a.memory_risk)},
            {"proof", proof_name(a.exact)}};
  if (a.plan) {
    json["plan"] = brief(*a.plan, c);
    json["out_of_memory_probability"] = number(a.out_of_memory);
    if (a.slowdown) json["slowdown"] = number(*a.slowdown);
  }
  return json;
}

Json rivals_json(const std::vector<Rival>& all, const ClusterSpec& c) {
  Json json = Json::array();
  for (const Rival& rival : all) {
    if (!rival.exact && !rival.plan) continue;  // nothing is known of it
    json.push_back(
        {{"key", rival.key}, {"value", rival.value}, {"proof", proof_name(rival.exact)}});
    if (rival.plan) json.back()["plan"] = brief(*rival.plan, c);
  }
  return json;
}

Json runnable_json(const RunnablePlan& runnable, const ClusterSpec& c) {
  Json json{{"space", name_of(runnable.space)}, {"proof", proof_name(runnable.exact)}};
  if (runnable.plan) {
    json["plan"] = brief(*runnable.plan, c);
    json["slowdown"] = number(runnable.slowdown);
  }
  return json;
}

Json goodput_json(const Goodput& g) {
  return {{"time_between_failures_s", number(g.between_failures.si())},
          {"checkpoint_bytes", g.checkpoint_bytes.count()},
          {"checkpoint_time_s", number(g.checkpoint_time.si())},
          {"young_interval_s", number(g.young.si())},
          {"daly_interval_s", number(g.daly.si())},
          {"steps_per_checkpoint", g.steps_per_checkpoint},
          {"useful_share", number(g.shares.useful)},
          {"checkpoint_share", number(g.shares.checkpoint)},
          {"lost_share", number(g.shares.lost)},
          {"tokens_per_s", number(g.tokens_per_s)}};
}

Json goodput_json(const GoodputStudy& study) {
  Json plans = Json::array();
  for (const Goodput& g : study.plans) plans.push_back(goodput_json(g));
  return {{"failures_per_gpu_hour", number(study.failures.failures_per_gpu_hour)},
          {"restart_time_s", number(study.failures.restart_time.si())},
          {"plans", std::move(plans)}};
}

Json sweep_json(const Sweep& sweep, const ClusterSpec& c) {
  Json sizes = Json::array();
  for (const SweepPoint& p : sweep.points) {
    Json size{{"gpus", p.gpus},
              {"proof", proof_name(proves_all(p.result.proof))},
              {"wall_s", number(p.result.statistics.wall.si())}};
    if (p.fits()) {
      size["plan"] = brief(p.result.plans.front(), c);
      size["speedup"] = number(p.speedup);
      size["efficiency"] = number(p.efficiency);
    }
    if (p.goodput) size["goodput"] = goodput_json(*p.goodput);
    sizes.push_back(std::move(size));
  }
  Json json = Json::object();
  if (sweep.base) json["base_gpus"] = sweep.points[*sweep.base].gpus;
  if (sweep.knee) json["knee_gpus"] = sweep.points[*sweep.knee].gpus;
  if (sweep.cheapest) json["cheapest_gpus"] = sweep.points[*sweep.cheapest].gpus;
  if (sweep.recommended) json["recommended_gpus"] = sweep.points[*sweep.recommended].gpus;
  json["sizes"] = std::move(sizes);
  return json;
}

Json pareto_json(const ParetoFront& front, const ClusterSpec& c) {
  Json points = Json::array();
  for (const ParetoPoint& p : front.points) points.push_back(brief(p.plan, c));
  return {{"resolution_bytes", front.resolution.count()},
          {"proof", proof_name(front.exact)},
          {"points", std::move(points)}};
}

Json change_json(const Change& change, const PlanCost& base) {
  Json json{{"factor", number(change.scenario.factor)}};
  const auto add = [&](const char* key, const std::optional<PlanCost>& plan) {
    if (!plan) return;
    json[key] = {{"strategy_text", to_text(plan->strategy)},
                 {"step_time_s", number(plan->step_time.si())},
                 {"change", number(relative_change(*plan, base))}};
  };
  add("kept", change.kept);
  add("best", change.best);
  if (!change.kept) json["kept_is_legal"] = change.kept_is_legal;
  json["same_choice"] = change.same_choice;
  return json;
}

Json sensitivity_json(const Sensitivity& s) {
  Json rows = Json::array();
  for (const SensitivityRow& row : s.rows) {
    rows.push_back({{"name", row.name},
                    {"less", change_json(row.less, s.base)},
                    {"more", change_json(row.more, s.base)}});
  }
  return {{"share", number(s.share)}, {"rows", std::move(rows)}};
}

Json fallback_json(const FallbackBook& book, const ClusterSpec& c) {
  Json entries = Json::array();
  for (const Fallback& f : book.entries) {
    Json entry{{"nodes_lost", f.nodes_lost}, {"nodes_left", f.nodes_left}};
    if (f.plan) {
      entry["nodes_used"] = f.nodes_used;
      entry["plan"] = brief(*f.plan, c);
      entry["slowdown"] = number(f.slowdown);
      entry["reshard"] = {{"kind", std::string(name_of(f.reshard.kind))},
                          {"keys", f.reshard.keys},
                          {"how", f.reshard.how},
                          {"source", f.reshard.source}};
    }
    entries.push_back(std::move(entry));
  }
  return {{"proof", proof_name(book.exact)}, {"entries", std::move(entries)}};
}

}  // namespace

void add_studies(Json& document, const Studies& studies, const ClusterSpec& c) {
  document["compared_with"] = rivals_json(studies.rivals, c);
  if (studies.runnable) document["runnable"] = runnable_json(*studies.runnable, c);
  const Alternatives& a = studies.alternatives;
  if (a.fastest) document["fastest"] = alternative_json(*a.fastest, c);
  if (a.unbuilt) document["unbuilt"] = alternative_json(*a.unbuilt, c);
  if (studies.goodput) document["goodput"] = goodput_json(*studies.goodput);
  if (studies.maximum) {
    const Maximum& most = *studies.maximum;
    Json json{{"key", std::string(name_of(most.key))}, {"value", most.value}, {"most", most.most}};
    if (most.next) json["next"] = *most.next;
    document["maximum"] = json;
  }
  if (studies.sweep) document["sweep"] = sweep_json(*studies.sweep, c);
  if (studies.pareto) document["pareto"] = pareto_json(*studies.pareto, c);
  if (studies.sensitivity) document["sensitivity"] = sensitivity_json(*studies.sensitivity);
  if (studies.fallback) document["fallback"] = fallback_json(*studies.fallback, c);
}

void add_expert_load(Json& document, const ModelSpec& m, const ClusterSpec& c,
                     const PlanCost& plan) {
  const std::optional<ExpertSpread> spread = expert_spread(m, c, plan);
  if (!spread) return;
  document["expert_load"] = {{"ranks", spread->load.ranks},
                             {"median", number(spread->load.median)},
                             {"p99", number(spread->load.p99)},
                             {"step_time_median_s", number(spread->step_median.si())},
                             {"step_time_p99_s", number(spread->step_p99.si())},
                             {"peak_median_bytes", spread->peak_median.count()},
                             {"peak_p99_bytes", spread->peak_p99.count()}};
}

void add_lengths(Json& document, const ModelSpec& m, const ClusterSpec& c, const PlanCost& plan) {
  const std::optional<LengthSpread> spread = length_spread(m, c, plan);
  if (!spread) return;
  const auto heaviest = [](const HeaviestRank& r) {
    return Json{{"mean", number(r.mean)}, {"median", number(r.median)}, {"p99", number(r.p99)}};
  };
  Json choices = Json::array();
  for (const PackingChoice& choice : packing_choices(m, c, plan)) {
    choices.push_back({{"packing", std::string(name_of(choice.packing))},
                       {"tokens_per_s", number(choice.tokens_per_s)},
                       {"padding", number(choice.padding)},
                       {"peak_bytes", choice.peak.count()}});
  }
  const LengthSpec& lengths = *m.lengths;
  constexpr double kMedian = 0.5, kHigh = 0.99;
  document["lengths"] = {{"name", lengths.name},
                         {"mean_tokens", number(mean_length(lengths))},
                         {"median_tokens", number(length_quantile(lengths, kMedian))},
                         {"p99_tokens", number(length_quantile(lengths, kHigh))},
                         {"longest_tokens", number(longest(lengths))},
                         {"cut_share", number(spread->cut)},
                         {"documents_per_row", number(spread->row.documents)},
                         {"tokens_per_row", number(spread->row.real)},
                         {"computed_tokens_per_row", number(spread->row.computed)},
                         {"padding_share", number(spread->row.padding())},
                         {"pairs_per_row", number(spread->row.squares)},
                         {"heaviest_rank_tokens", heaviest(spread->uneven.tokens)},
                         {"heaviest_rank_pairs", heaviest(spread->uneven.squares)},
                         {"step_time_median_s", number(spread->step_median.si())},
                         {"step_time_p99_s", number(spread->step_p99.si())},
                         {"peak_median_bytes", spread->peak_median.count()},
                         {"peak_p99_bytes", spread->peak_p99.count()},
                         {"packings", std::move(choices)}};
}

}  // namespace meshplan
