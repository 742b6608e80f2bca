// Why the best plan wins, from the terms of the plans and of a few neighbours of the best one.
#include <algorithm>
#include <functional>
#include <utility>

#include "base/text.hpp"
#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "model/parameters.hpp"
#include "search/search.hpp"

namespace meshplan {
namespace {

struct Explanation {
  const ModelSpec& model;
  const ClusterSpec& cluster;
  const PlanCost& best;
  std::vector<std::string> sentences;

  void say(std::string sentence) { sentences.push_back(std::move(sentence)); }
};

// A neighbour of the best plan: its derived fields are derived again.
Verdict neighbour(const Explanation& x, const std::function<void(Strategy&)>& change) {
  Strategy s = x.best.strategy;
  s.dp = 0;
  s.recompute_layers.clear();
  change(s);
  if (s.pp != x.best.strategy.pp || s.vp != x.best.strategy.vp) s.stage_layers.clear();
  EvaluateOptions options;
  options.with_remedies = false;
  return evaluate(x.model, x.cluster, s, options);
}

// "12.3 % slower", "does not fit (4.2 GiB are missing)" or what makes it illegal.
std::string compared(const Explanation& x, const Verdict& v) {
  if (!v.feasible()) {
    const Infeasible& no = v.infeasible();
    if (no.reason == InfeasibleReason::kIllegal)
      return "is not legal here (" + no.messages.front() + ")";
    return "does not fit (" + human_bytes(no.shortfall) + " are missing)";
  }
  const double ratio = v.cost().step_time / x.best.step_time - 1;
  if (std::abs(ratio) < 0.0005) return "is as fast";
  return "is " + human_percent(std::abs(ratio)) + (ratio > 0 ? " slower" : " faster");
}

// Weights, gradients and optimizer states of parameters on one device, nothing sharded.
Bytes unsharded_states(const Strategy& s, std::int64_t parameters) {
  Strategy whole = s;
  whole.zero = 0;
  whole.offload.optimizer = false;
  const StateBytes bytes = state_bytes(whole, BlockParameters{parameters, 0});
  return bytes.weights + bytes.gradients + bytes.optimizer;
}

// The order in which people decide: does a layer fit a device, does the model fit a node, what is
// left for data parallelism.
void explain_need(Explanation& x) {
  const ParameterCount count = parameter_count(x.model);
  const Bytes all = unsharded_states(x.best.strategy, count.total);
  const Bytes layer{all.count() / x.model.num_layers};
  const Bytes device = x.cluster.device.memory;
  const Bytes node = device * x.cluster.gpus_per_node;
  x.say("weights, gradients and optimizer states take " + human_bytes(all) + ", " +
        human_bytes(layer) + " a layer; a GPU holds " + human_bytes(device) + ", a node " +
        human_bytes(node) +
        (all > node     ? ": the model must be split over nodes"
         : all > device ? ": the model must be split over GPUs"
                        : ": one GPU could hold it"));
}

void explain_tensor_parallel(Explanation& x) {
  const Strategy& s = x.best.strategy;
  const std::string share =
      human_percent(x.best.time.tp_comm_exposed / x.best.step_time) + " of the step";
  if (s.tp == 1) {
    x.say("no tensor parallelism: tp=2 " + compared(x, neighbour(x, [](Strategy& n) {
                                                      n.tp = 2;
                                                      n.sequence_parallel = true;
                                                    })));
    return;
  }
  const GroupShape g = group_shape(s, x.cluster, Group::kTp);
  x.say("tensor parallelism tp=" + std::to_string(s.tp) + " stays on level " +
        x.cluster.levels[g.level].name + " and costs " + share + "; tp=" +
        std::to_string(s.tp * 2) + " " + compared(x, neighbour(x, [](Strategy& n) { n.tp *= 2; })) +
        ", tp=" + std::to_string(s.tp / 2) + " " + compared(x, neighbour(x, [](Strategy& n) {
                                                              n.tp /= 2;
                                                              if (n.tp == 1)
                                                                n.sequence_parallel = false;
                                                            })));
}

void explain_pipeline(Explanation& x) {
  const Strategy& s = x.best.strategy;
  if (s.pp == 1) {
    x.say("no pipeline: what tensor parallelism and sharding leave fits a GPU");
    return;
  }
  x.say("pipeline pp=" + std::to_string(s.pp) + " with " + with_thousands(num_microbatches(s)) +
        " microbatches idles " + human_percent(x.best.bubble_fraction) + " of the step; pp=" +
        std::to_string(s.pp / 2) + " " + compared(x, neighbour(x, [](Strategy& n) {
                                                    n.pp /= 2;
                                                    if (n.pp == 1)
                                                      n.schedule = kPlainSchedule, n.vp = 1;
                                                  })));
}

void explain_data_parallel(Explanation& x) {
  const Strategy& s = x.best.strategy;
  if (s.dp * s.cp == 1) return;
  x.say("the rest is data parallelism dp=" + with_thousands(s.dp) +
        (s.cp > 1 ? " (and context parallelism cp=" + std::to_string(s.cp) + ")" : "") +
        " with ZeRO-" + std::to_string(s.zero) + ", whose communication shows for " +
        human_percent(x.best.time.dp_comm_exposed / x.best.step_time) + " of the step" +
        (s.zero > 0
             ? "; zero=0 " +
                   compared(x, neighbour(x, [](Strategy& n) { n.zero = 0, n.zero_group = 0; }))
             : ""));
}

// What the plan makes use of and a published or older run may lack, each with its worth.
void explain_features(Explanation& x) {
  const Strategy& s = x.best.strategy;
  std::vector<std::pair<std::string, std::function<void(Strategy&)>>> without;
  if (s.pp > 1 && (s.vp > 1 || s.schedule != kPlainSchedule)) {
    without.emplace_back("plain 1F1B instead of " + std::string(name_of(s.schedule)),
                         [](Strategy& n) { n.schedule = kPlainSchedule, n.vp = 1; });
  }
  if (s.recompute != Recompute::kFull) {
    without.emplace_back("full recomputation", [](Strategy& n) {
      n.recompute = Recompute::kFull, n.offload.activations = false;
    });
  }
  if (s.flash_attention) {
    without.emplace_back("attention without flash kernels",
                         [](Strategy& n) { n.flash_attention = false; });
  }
  if (s.sequence_parallel && s.ep == 1) {
    without.emplace_back("no sequence parallelism",
                         [](Strategy& n) { n.sequence_parallel = n.overlap.tp = false; });
  }
  if (s.overlap.grad_reduce || s.overlap.tp || s.overlap.ep || s.overlap.pp) {
    without.emplace_back("nothing overlapped",
                         [](Strategy& n) { n.overlap = Overlap{.tp_backward = false}; });
  }
  std::string text;
  for (const auto& [name, change] : without) {
    text += (text.empty() ? "" : "; ") + name + " " + compared(x, neighbour(x, change));
  }
  if (!text.empty()) x.say("what it relies on, one at a time taken away: " + text);
}

void explain_binding(Explanation& x) {
  const MemoryBreakdown& memory = x.best.memory();
  const TimeTerms& t = x.best.time;
  const double full = memory.peak.si() / memory.capacity.si();
  const std::vector<std::pair<Seconds, std::string>> losses{
      {t.pp_bubble, "the pipeline bubble"},
      {t.tp_comm_exposed, "tensor-parallel communication"},
      {t.cp_comm_exposed, "context-parallel communication"},
      {t.ep_comm_exposed, "expert-parallel communication"},
      {t.dp_comm_exposed, "data-parallel communication"},
      {t.recompute, "recomputation"},
      {t.other, "the host's launch rate"}};
  const auto worst = std::max_element(losses.begin(), losses.end());
  std::string text = "what binds it: ";
  if (full > 0.9) {
    text += "memory, " + human_percent(full) + " of the fullest GPU is in use, and then ";
  }
  x.say(text + worst->second + ", " + human_percent(worst->first / x.best.step_time) +
        " of the step" +
        (num_microbatches(x.best.strategy) < 2 * x.best.strategy.pp && x.best.strategy.pp > 1
             ? "; a larger global batch would thin it"
             : ""));
}

void explain_runner_up(Explanation& x, const PlanCost& second) {
  const double ratio = second.step_time / x.best.step_time - 1;
  const TimeTerms &a = x.best.time, &b = second.time;
  const std::vector<std::pair<Seconds, std::string>> gains{
      {b.compute - a.compute, "compute"},
      {b.recompute - a.recompute, "recomputation"},
      {b.tp_comm_exposed - a.tp_comm_exposed, "tensor-parallel communication"},
      {b.cp_comm_exposed - a.cp_comm_exposed, "context-parallel communication"},
      {b.ep_comm_exposed - a.ep_comm_exposed, "expert-parallel communication"},
      {b.pp_comm_exposed - a.pp_comm_exposed, "pipeline communication"},
      {b.pp_bubble - a.pp_bubble, "bubble"},
      {b.dp_comm_exposed - a.dp_comm_exposed, "data-parallel communication"}};
  const auto most = std::max_element(gains.begin(), gains.end());
  constexpr double kSeen = 0.0005;  // what one decimal of a percentage shows
  std::string text = "the runner-up, " + short_text(second.strategy) + ", is " +
                     (ratio < kSeen ? "as fast" : human_percent(ratio) + " slower");
  if (most->first > Seconds{}) {
    text += "; most of all it has " + human_time(most->first) + " more " + most->second;
  }
  x.say(std::move(text));
}

}  // namespace

std::vector<std::string> explain(const ModelSpec& m, const ClusterSpec& c,
                                 const SearchResult& result) {
  if (result.plans.empty()) return {};
  Explanation x{m, c, result.plans.front(), {}};
  explain_need(x);
  explain_tensor_parallel(x);
  explain_pipeline(x);
  explain_data_parallel(x);
  explain_features(x);
  explain_binding(x);
  if (result.plans.size() > 1) explain_runner_up(x, result.plans[1]);
  return std::move(x.sentences);
}

}  // namespace meshplan
