#include "fuzz/invariants.hpp"

#include <cmath>

#include "cost/step.hpp"
#include "frameworks/preset.hpp"
#include "fuzz/fuzz.hpp"
#include "io/load.hpp"
#include "io/plans_file.hpp"
#include "report/estimate_text.hpp"
#include "report/json.hpp"
#include "report/plan_table.hpp"

namespace meshplan::fuzz {
namespace {

constexpr ToolInfo kTool{"0.0.0"};

bool sane(double value) { return std::isfinite(value) && value >= 0; }
bool sane(Seconds t) { return sane(t.si()); }

void check_time(const PlanCost& p) {
  const TimeTerms& t = p.time;
  for (const Seconds term :
       {t.compute, t.recompute, t.tp_comm_exposed, t.cp_comm_exposed, t.ep_comm_exposed,
        t.pp_comm_exposed, t.pp_bubble, t.dp_comm_exposed, t.optimizer, t.uneven, t.other}) {
    require(sane(term), "a term of the step time is negative or not finite");
  }
  require(p.step_time == total(t), "the terms do not add up to the step time");
  require(sane(p.step_time) && p.step_time > Seconds{}, "the step time is not above zero");
  require(sane(p.bubble_fraction) && p.bubble_fraction <= 1, "bubble_fraction");
  require(sane(p.mfu) && sane(p.hfu), "the utilisation is negative or not finite");
  require(sane(p.mfu_causal) && p.mfu_causal <= p.mfu * (1 + 1e-9), "mfu_causal is above mfu");
  require(p.mfu <= p.hfu * (1 + 1e-9), "mfu is above hfu");
  require(sane(p.model_flops.si()) && sane(p.hardware_flops.si()), "flops");
  require(sane(p.tokens_per_step) && p.tokens_per_step >= 1, "tokens_per_step");
  for (const CommEntry& entry : p.communication) {
    require(sane(entry.time_each) && sane(entry.exposed) && sane(entry.count_per_step),
            "a communication entry is negative or not finite");
    require(entry.bytes.count() >= 0 && entry.group_size >= 1, "bytes or ranks of an entry");
  }
}

void check_memory(const MemoryBreakdown& m) {
  const std::int64_t parts[] = {m.weights.count(),     m.gradients.count(), m.optimizer.count(),
                                m.activations.count(), m.buffers.count(),   m.reserved.count()};
  std::int64_t sum = 0;
  for (const std::int64_t part : parts) {
    require(part >= 0, "a part of the memory is negative");
    require(!__builtin_add_overflow(sum, part, &sum), "the parts of the memory overflow");
  }
  require(m.peak.count() == sum, "the memory's parts do not add up to its peak");
  require(m.reserved == m.communicators + m.context + m.fragmentation, "reserved memory");
}

void check_stages(const std::vector<StageCost>& stages, const ModelSpec& m) {
  std::int64_t layers = 0;
  for (const StageCost& stage : stages) {
    layers += stage.layers;
    require(stage.layers >= 0 && stage.recomputed_layers >= 0, "layers of a stage");
    require(stage.recomputed_layers <= stage.layers + m.mtp_layers, "recomputed layers of a stage");
    require(sane(stage.forward) && sane(stage.backward), "the time of a stage");
    require(stage.in_flight >= 0 && stage.parameters >= 0, "a stage's microbatches or parameters");
    check_memory(stage.memory);
  }
  require(layers == m.num_layers, "the stages do not hold the model's layers");
}

void check_cost(const PlanCost& p, const ModelSpec& m) {
  check_time(p);
  check_stages(p.stages, m);
  require(p.fullest_stage < p.stages.size() && p.last_stage < p.stages.size(), "stage index");
}

// Equal to the last bit: prediction is one function.
void check_same(const PlanCost& a, const PlanCost& b) {
  require(a.strategy == b.strategy, "an estimate completes the strategy differently");
  require(a.step_time == b.step_time && a.time == b.time, "an estimate gives another time");
  require(a.memory() == b.memory(), "an estimate gives another memory");
}

const TextOptions& narrow() {
  static const TextOptions options{60, true};
  return options;
}

}  // namespace

Documents check_estimate(const Case& c) {
  const Verdict verdict = evaluate(c.model, c.cluster, c.strategy);
  if (verdict.feasible()) {
    const PlanCost& p = verdict.cost();
    check_cost(p, c.model);
    require(p.memory().peak <= p.memory().capacity, "a plan that does not fit is called feasible");
    check_same(p, cost_of(c.model, c.cluster, p.strategy));
    const Result<Strategy> again = load_strategy(to_text(p.strategy), Strategy{});
    require(again.ok(), "a strategy cannot be read back");
    const Verdict same = evaluate(c.model, c.cluster, *again);
    require(same.feasible() && same.cost().step_time == p.step_time,
            "a strategy that was written and read costs something else");
  } else {
    const Infeasible& why = verdict.infeasible();
    require(why.reason != InfeasibleReason::kIllegal || !why.messages.empty(), "no reason given");
    require(why.shortfall.count() >= 0, "a negative shortfall");
    if (why.reason != InfeasibleReason::kIllegal) check_stages(verdict.stages, c.model);
  }
  Documents documents;
  documents.estimate = estimate_document(kTool, c.model, c.cluster, c.strategy, verdict);
  return documents;
}

Documents check_search(Choices& choices, const Case& c) {
  const SearchRequest request = make_request(choices, c);
  Documents documents;
  const Result<SearchResult> found = search(c.model, c.cluster, request);
  require_value_or_errors(found);
  if (!found.ok()) return documents;
  const SearchStatistics& n = found->statistics;
  require(n.space_size >= 0 && n.illegal >= 0 && n.evaluated >= 0 && n.pruned >= 0, "counts");
  require(n.feasible >= static_cast<std::int64_t>(found->plans.size()), "more plans than feasible");
  require(found->proof.exact && found->proof.gap == 0, "no time limit, and yet no exact proof");
  EvaluateOptions options;
  options.ignore_memory = request.ignore_activations;
  for (const PlanCost& p : found->plans) {
    check_cost(p, c.model);
    require(!has_errors(validate(p.strategy, c.model, c.cluster)), "a plan is illegal");
    const Verdict again = evaluate(c.model, c.cluster, p.strategy, options);
    require(again.feasible(), "an estimate says that a plan does not fit");
    check_same(p, again.cost());
    if (request.objective == Objective::kStepTime) {
      require(found->plans.front().step_time <= p.step_time, "the plans are not in order");
    }
  }
  require(!search_report(c.model, c.cluster, request, *found, {}, narrow()).empty(), "no text");
  documents.plan = plan_document(kTool, c.model, c.cluster, request, *found);
  const Result<PlansFile> file = parse_plans(documents.plan, "plans.json");
  if (!file.ok()) std::fputs(to_text(file.errors()).c_str(), stderr);
  require(file.ok() && file->plans.size() == found->plans.size(), "the plans do not read back");
  for (std::size_t i = 0; i < file->plans.size(); ++i) {
    require(file->plans[i].strategy == found->plans[i].strategy, "a strategy reads back changed");
  }
  return documents;
}

}  // namespace meshplan::fuzz
