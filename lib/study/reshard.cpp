#include "study/reshard.hpp"

#include <array>

#include "base/check.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

struct Rule {
  ReshardKind kind = ReshardKind::kNo;
  std::string_view how;
  std::string_view source;
};

struct FrameworkRules {
  Framework framework = Framework::kMegatron;
  Rule shards;  // only the number of ranks that share optimizer states, or the ZeRO stage, changes
  Rule model;   // tp, pp or its layers, ep or etp change too
};

constexpr std::string_view kDcp =
    "PyTorch documentation, torch.distributed.checkpoint: load-time resharding";
constexpr std::string_view kUniversal =
    "DeepSpeed Universal Checkpointing, Lian et al. 2024 (2406.18820); in DeepSpeed since 0.14.4";
constexpr std::string_view kMegatronCore =
    "Megatron Core API guide, dist_checkpointing: distributed optimizer checkpoint formats";
constexpr std::string_view kNanotron = "nanotron serialize/optimizer.py, load_optimizer";
constexpr std::string_view kInternEvo =
    "InternEvo checkpoint/components.py asserts equal tp, pp and ZeRO sizes";

constexpr std::string_view kDeepspeedV0 =
    "DeepSpeed 0.3 runtime/engine.py, _get_all_zero_checkpoints: a file per rank; stage3.py loads "
    "only as many";

constexpr Rule kUniversalRule{ReshardKind::kConverted,
                              "convert with ds_to_universal.py, load with --universal-checkpoint",
                              kUniversal};
constexpr Rule kDcpRule{ReshardKind::kAtLoad, "load the sharded (DCP) checkpoint", kDcp};

constexpr std::array kRules{
    FrameworkRules{
        Framework::kMegatron,
        {ReshardKind::kAtLoad, "load the torch_dist checkpoint", kMegatronCore},
        {ReshardKind::kOption, "resume with --dist-ckpt-optim-fully-reshardable", kMegatronCore}},
    FrameworkRules{Framework::kMegatronDeepspeed, kUniversalRule, kUniversalRule},
    FrameworkRules{Framework::kDeepspeed, kUniversalRule, kUniversalRule},
    FrameworkRules{Framework::kFsdp, kDcpRule, kDcpRule},
    FrameworkRules{Framework::kTorchtitan, kDcpRule, kDcpRule},
    // With ZeRO-1 and the same tp and pp it looks for files of the new number of replicas.
    FrameworkRules{Framework::kNanotron,
                   {ReshardKind::kNo, "keep dp, or change tp or pp with it", kNanotron},
                   {ReshardKind::kAtLoad, "load the checkpoint", kNanotron}},
    FrameworkRules{Framework::kLlmFoundry,
                   {ReshardKind::kAtLoad, "load the sharded checkpoint",
                    "Composer documentation, saving and loading sharded checkpoints with FSDP"},
                   kDcpRule},
    FrameworkRules{
        Framework::kInternEvo,
        {ReshardKind::kNo, "keep the number of ranks that share states", kInternEvo},
        {ReshardKind::kNo, "keep tp, pp and the number of ranks that share states", kInternEvo}},
    FrameworkRules{Framework::kMegatronV2,
                   {ReshardKind::kAtLoad, "load the checkpoint: states are not sharded over dp",
                    "Megatron-LM 2021 checkpointing.py: one file per tensor and pipeline rank"},
                   {ReshardKind::kConverted,
                    "tools/checkpoint_util.py converts the weights, not Adam's moments",
                    "Megatron-LM README, changing the parallelism of a checkpoint"}},
    FrameworkRules{Framework::kDeepspeedV0,
                   {ReshardKind::kNo, "keep dp", kDeepspeedV0},
                   {ReshardKind::kNo, "keep dp, tp and pp", kDeepspeedV0}},
};

constexpr bool rules_in_order() {
  for (std::size_t i = 0; i < kRules.size(); ++i) {
    if (static_cast<std::size_t>(kRules[i].framework) != i) return false;
  }
  return kRules.size() == NameTable<Framework>::rows.size();
}
static_assert(rules_in_order());

void add_if(bool differs, std::string key, std::vector<std::string>& keys) {
  if (differs) keys.push_back(std::move(key));
}

// Ranks over which optimizer states are cut, and how.
bool same_shards(const Strategy& a, const Strategy& b) {
  if (a.zero == 0 && b.zero == 0) return true;
  return shard_group(a) == shard_group(b) && a.zero == b.zero && expert_dp(a) == expert_dp(b);
}

}  // namespace

std::string_view name_of(ReshardKind k) {
  constexpr std::array<std::string_view, 5> kNames{"unchanged", "at-load", "with-option",
                                                   "converted", "no"};
  return kNames[static_cast<std::size_t>(k)];
}

Reshard reshard(const Strategy& from, const Strategy& to) {
  PLAN_CHECK(from.framework == to.framework);
  Reshard result;
  add_if(from.tp != to.tp, "tp", result.keys);
  add_if(from.pp != to.pp, "pp", result.keys);
  add_if(from.vp != to.vp, "vp", result.keys);
  add_if(from.pp == to.pp && from.stage_layers != to.stage_layers, "stage_layers", result.keys);
  add_if(from.ep != to.ep, "ep", result.keys);
  add_if(from.etp != to.etp, "etp", result.keys);
  const bool model = !result.keys.empty();
  if (!same_shards(from, to)) {
    add_if(from.zero != to.zero, "zero", result.keys);
    add_if(shard_group(from) != shard_group(to) || expert_dp(from) != expert_dp(to), "dp",
           result.keys);
  }
  if (result.keys.empty()) return result;
  const FrameworkRules& rules = kRules[static_cast<std::size_t>(from.framework)];
  const Rule& rule = model ? rules.model : rules.shards;
  result.kind = rule.kind;
  result.how = rule.how;
  result.source = rule.source;
  return result;
}

}  // namespace meshplan
