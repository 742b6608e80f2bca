#pragma once
// What a training framework can be told: the rules that a plan must keep beyond being legal, so
// that the framework's own configuration says the same as the plan. Each rule cites the file of the
// framework that it comes from. Search spaces, exporters and lint ask these tables and nothing
// else.
#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "spec/division_rules.hpp"
#include "spec/findings.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

enum class Target {
  kMegatron,
  kDeepspeed,
  kTorchtitan,
  kMegatronBridge,
  kAccelerate,
  kAxolotl,
  kTorchtune
};
MESHPLAN_NAMES(Target, {{Target::kMegatron, "megatron"},
                        {Target::kDeepspeed, "deepspeed"},
                        {Target::kTorchtitan, "torchtitan"},
                        {Target::kMegatronBridge, "megatron-bridge"},
                        {Target::kAccelerate, "accelerate"},
                        {Target::kAxolotl, "axolotl"},
                        {Target::kTorchtune, "torchtune"}});

// What starts runs of the strategy's framework; nothing for frameworks, or releases of them, that
// no exporter knows.
[[nodiscard]] std::optional<Target> target_of(const Strategy& s, const ModelSpec& m);

// What starts such a run where `t` starts those whose options say everything: Megatron-Bridge has
// adapters, and models that no option of Megatron-LM's describes.
[[nodiscard]] Target carrier_of(Target t, const Strategy& s, const ModelSpec& m);

// What a target lacks for a model, whatever the strategy. For a search, which asks about one model
// again and again. Keeps a reference to the model.
class TargetModel {
 public:
  TargetModel(Target t, const ModelSpec& m);

  // The same as the functions of these names.
  [[nodiscard]] Target carrier_of(const Strategy& s) const;
  [[nodiscard]] Findings findings(Target carrier, const Strategy& s, const ClusterSpec& c) const;
  // Whether one of those findings is as asked; the rest of the rules are not looked at then.
  [[nodiscard]] bool has_finding(Target carrier, const Strategy& s, const ClusterSpec& c,
                                 const std::function<bool(const Finding&)>& asked) const;

 private:
  void check_parts(Target carrier, const Strategy& s, Findings& f) const;
  Target target_;
  const ModelSpec& model_;
  Findings own_, of_bridge_;  // the second where `target_` is Megatron-LM
};

// Those whose files leave the model to the user's program or recipe.
[[nodiscard]] constexpr bool leaves_the_model(Target t) {
  return t == Target::kAccelerate || t == Target::kAxolotl || t == Target::kTorchtune;
}

// Whether axolotl takes its own kernels for the plan's adapters when nobody says anything.
[[nodiscard]] bool fuses_adapters(const Strategy& s);

struct Plan;

struct TargetRule {
  std::string_view source;  // file of the framework, and what is checked there
  void (*check)(const Plan&, Findings&);
  // Changes the strategy into the nearest that keeps the rule; null where only another model would.
  void (*mend)(Strategy&, const ModelSpec&) = nullptr;
  // What `check` leaves of the layers, for a search that makes up both; null: anything.
  PartitionRule stages = PartitionRule::kAny;
  CountRule (*recomputed)(const ModelSpec&) = nullptr;
};

[[nodiscard]] std::span<const TargetRule> target_rules(Target t);

// Whether Megatron-LM's hybrid pattern and arguments say the layers of `m`: each a mixer or a
// feed-forward alone, and all of one kind alike.
[[nodiscard]] bool is_megatron_hybrid(const ModelSpec& m);

// What the rules leave of stages and of the layers that a rank recomputes.
struct TargetLayers {
  PartitionRule stages = PartitionRule::kAny;
  CountRule recomputed = CountRule::kFewest;  // or as many more as one likes
};
[[nodiscard]] TargetLayers target_layers(Target t, const ModelSpec& m);

// What selective recomputation of the target can repeat of such a model, from what takes least time
// on: the empty list where what the framework repeats by itself is what a plan counts.
[[nodiscard]] std::vector<RecomputeModules> target_modules(Target t, const ModelSpec& m,
                                                           const Strategy& s);

// Every rule of the target that `s` breaks. `s` must be legal (validate()); its lists may be empty.
[[nodiscard]] Findings target_findings(Target t, const Strategy& s, const ModelSpec& m,
                                       const ClusterSpec& c);

// What the plan's own framework cannot be told, as a warning; empty if it can be told everything,
// or if there is no exporter for it.
[[nodiscard]] std::string inexpressible(const Strategy& s, const ModelSpec& m,
                                        const ClusterSpec& c);

// The nearest legal strategy that the target can express; nothing if there is none.
[[nodiscard]] std::optional<Strategy> nearest_expressible(Target t, Strategy s, const ModelSpec& m,
                                                          const ClusterSpec& c);

// Layers that Megatron-LM's block recomputation names per chunk, if the plan's counts are such:
// n layers of every chunk, or all of a chunk that has fewer. 0: no layer. -1: every layer.
[[nodiscard]] std::optional<std::int64_t> recomputed_per_chunk(const Strategy& s,
                                                               const ModelSpec& m);

// A model that torchtitan ships, by the sizes that tell it from others.
struct TorchtitanFlavor {
  std::string_view model, flavor;
  std::int64_t layers = 0, hidden = 0, heads = 0, ffn = 0, vocabulary = 0, experts = 0;
  std::int64_t groups = 0, head_dim = 0;
  bool tied = false;
  // Of mixtures of experts.
  std::int64_t top_k = 0, expert_ffn = 0, shared_ffn = 0, first_dense = 0;
  std::int64_t q_lora_rank = 0;  // of latent attention; its other sizes are the same in all
};
[[nodiscard]] std::span<const TorchtitanFlavor> torchtitan_flavors();
// The one of the same sizes, or null.
[[nodiscard]] const TorchtitanFlavor* torchtitan_flavor(const ModelSpec& m);
[[nodiscard]] ModelSpec torchtitan_model(const TorchtitanFlavor& f);

// What PyTorch calls a schedule (torch/distributed/pipelining/schedules.py, get_schedule_class);
// nothing for those that it does not have.
[[nodiscard]] std::optional<std::string_view> torchtitan_schedule(Schedule s);

// Whether every linear layer has a bias, the experts' and the router's included, as Megatron-LM's
// add_bias_linear means it.
[[nodiscard]] bool all_linear_biased(const ModelSpec& m);

// Rank numbering by the sizes of the axes that matter, so that orders that number alike compare
// equal.
[[nodiscard]] bool same_rank_order(const Strategy& s, const RankOrder& other);

inline constexpr RankOrder kPipelineInsideOrder{Axis::kTp, Axis::kCp, Axis::kEp, Axis::kPp,
                                                Axis::kDp};

// Rows of several documents, or of which each rank has a part: axolotl runs FlashAttention-2 over
// them, whatever is faster over others (loaders/patch_manager.py).
[[nodiscard]] inline bool packs_or_splits_rows(const Strategy& s) {
  return s.packing == Packing::kPack || s.cp > 1;
}

}  // namespace meshplan
