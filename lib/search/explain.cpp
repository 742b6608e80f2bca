// Why the best plan wins, from its terms and the best plans of what it decides against.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.hpp"
#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "model/parameters.hpp"
#include "search/groups.hpp"
#include "search/rivals.hpp"
#include "search/search.hpp"

namespace meshplan {
namespace {

struct Explanation {
  const ModelSpec& model;
  const ClusterSpec& cluster;
  const PlanCost& best;
  const std::vector<Rival>& rivals;
  std::vector<std::string> sentences;

  void say(std::string sentence) { sentences.push_back(std::move(sentence)); }
};

// "tp=2 is 12.3 % slower", or that it is out of the question.
std::string compared(const Explanation& x, const Rival& rival, const std::string& name) {
  if (!rival.plan) {
    return "with " + name + " nothing that fits is less than " + short_percent(kFarSlower - 1) +
           " slower";
  }
  const double ratio = rival.plan->step_time / x.best.step_time - 1;
  constexpr double kSeen = 0.0005;  // what one decimal of a percentage shows
  // Of a key that the search does not choose by itself.
  if (ratio < -kSeen) {
    return name + " is " + human_percent(-ratio) + " faster, and was not asked for";
  }
  if (ratio < kSeen) return name + " is as fast";
  return name + " is " + (rival.exact ? "" : "at most ") + human_percent(ratio) + " slower";
}

// What a value is called that is no number.
std::string name_of_choice(const Rival& rival) {
  if (rival.key == "recompute") {
    return rival.value == "none" ? "no recomputation" : rival.value + " recomputation";
  }
  if (rival.key == "schedule") return "schedule " + rival.value;
  if (rival.key == "sequence_parallel") return "no sequence parallelism";
  if (rival.key == "flash_attention") return "attention without flash kernels";
  if (rival.key == "offload.optimizer") return "the optimizer on the GPU";
  if (rival.key == "overlap.ep") return "an exchange of tokens that nothing runs beside";
  if (rival.key == "offload.activations") return "no offloaded activations";
  return rival.key + "=" + rival.value;
}

// The alternatives to a key, each at its best; empty where none was compared.
std::string at_best(const Explanation& x, std::initializer_list<std::string_view> keys,
                    std::string_view before = "; at best ") {
  std::string text;
  for (const std::string_view key : keys) {
    for (const Rival& rival : x.rivals) {
      if (rival.key != key || (!rival.exact && !rival.plan)) continue;
      text += (text.empty() ? "" : ", ") + compared(x, rival, name_of_choice(rival));
    }
  }
  return text.empty() ? text : std::string(before) + text;
}

// Weights, gradients and optimizer states of parameters on one device, nothing sharded.
Bytes unsharded_states(const ModelSpec& m, const Strategy& s, const ParameterCount& count) {
  Strategy whole = s;
  whole.zero = 0;
  whole.offload.optimizer = false;
  const std::int64_t frozen = frozen_parameters(m, s);
  BlockParameters p{count.total - frozen, 0};
  p.frozen_bytes = frozen * storage_size(s.precision);
  if (has_adapters(s)) {
    const double each = frozen_bytes_each(s.lora.frozen_dtype, storage_size(s.precision));
    const auto layers = static_cast<double>(count.total - count.embedding - count.output_head);
    p = {};
    p.frozen_bytes = std::llround(each * layers) +
                     (count.embedding + count.output_head) * storage_size(s.precision);
  }
  const StateBytes bytes = state_bytes(whole, p);
  return bytes.weights + bytes.gradients + bytes.optimizer;
}

// The order in which people decide: does a layer fit a device, does the model fit a node, what is
// left for data parallelism.
void explain_need(Explanation& x) {
  const ParameterCount count = parameter_count(x.model);
  const Bytes all = unsharded_states(x.model, x.best.strategy, count);
  const Bytes layer{all.count() / x.model.num_layers};
  const Bytes device = x.cluster.device.memory;
  const Bytes node = device * x.cluster.gpus_per_node;
  x.say((has_adapters(x.best.strategy) ? std::string("the frozen weights take ")
                                       : "weights, gradients and optimizer states take ") +
        human_bytes(all) + ", " + human_bytes(layer) + " a layer; a GPU holds " +
        human_bytes(device) + ", a node " + human_bytes(node) +
        (all > node     ? ": the model must be split over nodes"
         : all > device ? ": the model must be split over GPUs"
                        : ": one GPU could hold it"));
}

void explain_tensor_parallel(Explanation& x) {
  const Strategy& s = x.best.strategy;
  const std::string others = at_best(x, {"tp"});
  if (s.tp == 1) {
    if (!others.empty()) x.say("no tensor parallelism" + others);
    return;
  }
  const GroupShape g = group_shape(s, x.cluster, Group::kTp);
  x.say("tensor parallelism tp=" + std::to_string(s.tp) + " stays on level " +
        x.cluster.levels[g.level].name + " and costs " +
        human_percent(x.best.time.tp_comm_exposed / x.best.step_time) + " of the step" + others);
}

void explain_pipeline(Explanation& x) {
  const Strategy& s = x.best.strategy;
  if (s.pp == 1) {
    x.say("no pipeline: what tensor parallelism and sharding leave fits a GPU" +
          at_best(x, {"pp"}));
    return;
  }
  x.say("pipeline pp=" + std::to_string(s.pp) + " with " + with_thousands(num_microbatches(s)) +
        " microbatches idles " + human_percent(x.best.bubble_fraction) + " of the step" +
        at_best(x, {"pp", "schedule"}));
}

void explain_data_parallel(Explanation& x) {
  const Strategy& s = x.best.strategy;
  if (s.dp * s.cp == 1) return;
  x.say("the rest is data parallelism dp=" + with_thousands(s.dp) +
        (s.cp > 1 ? " (and context parallelism cp=" + std::to_string(s.cp) + ")" : "") +
        " with ZeRO-" + std::to_string(s.zero) + ", whose communication shows for " +
        human_percent(x.best.time.dp_comm_exposed / x.best.step_time) + " of the step" +
        at_best(x, {"zero", "cp"}));
}

void explain_experts(Explanation& x) {
  const std::string others = at_best(x, {"ep", "overlap.ep"});
  if (others.empty()) return;
  x.say("expert parallelism ep=" + std::to_string(x.best.strategy.ep) + " costs " +
        human_percent(x.best.time.ep_comm_exposed / x.best.step_time) + " of the step" + others);
}

// How memory is won, or not.
void explain_recomputation(Explanation& x) {
  const Strategy& s = x.best.strategy;
  const std::string others = at_best(x, {"recompute", "offload.optimizer", "offload.activations"});
  if (others.empty()) return;
  const std::string recomputed = s.recompute == Recompute::kNone
                                     ? "nothing is recomputed"
                                     : std::string(name_of(s.recompute)) + " recomputation costs " +
                                           human_percent(x.best.time.recompute / x.best.step_time) +
                                           " of the step";
  x.say(recomputed + others);
}

// What the plan makes use of and a published or older run may lack, each with its worth.
void explain_features(Explanation& x) {
  const std::string others = at_best(x, {"sequence_parallel", "flash_attention"}, "");
  if (!others.empty()) x.say("what it relies on, one at a time taken away, at best: " + others);
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
      {t.uneven, "waiting for the rank with the longest documents"},
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
                                 const SearchResult& result, const std::vector<Rival>& rivals) {
  if (result.plans.empty()) return {};
  Explanation x{m, c, result.plans.front(), rivals, {}};
  explain_need(x);
  explain_tensor_parallel(x);
  explain_pipeline(x);
  explain_data_parallel(x);
  explain_experts(x);
  explain_recomputation(x);
  explain_features(x);
  explain_binding(x);
  const std::vector<PlanGroup> groups = grouped(result.plans);
  if (groups.size() > 1) explain_runner_up(x, result.plans[groups[1].first]);
  return std::move(x.sentences);
}

}  // namespace meshplan
