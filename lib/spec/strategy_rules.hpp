#pragma once
// The rules that make a strategy illegal, one small function each; strategy_findings.cpp lists
// them. Sources are the frameworks' own checks (A: megatron/training/arguments.py, T:
// core/transformer/ transformer_config.py, P: core/parallel_state.py of Megatron-LM) and the
// arithmetic itself.
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "spec/findings.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

struct Plan {
  const Strategy& s;
  const ModelSpec& m;
  const ClusterSpec& c;
  // distinct_layers(m), which several rules ask for; of one thread.
  mutable std::vector<LayerSpec> known_layers = {};
  [[nodiscard]] const std::vector<LayerSpec>& layers() const {
    if (known_layers.empty()) known_layers = distinct_layers(m);
    return known_layers;
  }
};

// The product of some degrees, without overflow: at most 1e15, more than any cluster has.
[[nodiscard]] std::int64_t product(std::initializer_list<std::int64_t> degrees);

// Reports "'tp' must divide the 30 attention heads, got 8"; the first key is the divisor.
void must_divide(Findings& f, std::initializer_list<std::string_view> keys, std::int64_t divisor,
                 std::int64_t value, std::string_view what);

// Who holds what: devices, sizes of the layers (spec/layer_rules.hpp), experts, sequence, sharded
// states.
void check_gpus(const Plan& p, Findings& f);
void check_mixers(const Plan& p, Findings& f);
void check_feed_forwards(const Plan& p, Findings& f);
void check_experts(const Plan& p, Findings& f);
void check_expert_ranks(const Plan& p, Findings& f);
void check_expert_sequence(const Plan& p, Findings& f);
void check_expert_overlap(const Plan& p, Findings& f);
void check_expert_bias(const Plan& p, Findings& f);
void check_sequence_parallel(const Plan& p, Findings& f);
void check_context_parallel(const Plan& p, Findings& f);
void check_zero_group(const Plan& p, Findings& f);

// Documents of uneven length, and how they are packed.
void check_documents(const Plan& p, Findings& f);

// Optimizers and losses.
void check_optimizer(const Plan& p, Findings& f);
void check_loss(const Plan& p, Findings& f);
void check_update(const Plan& p, Findings& f);

// Switches that stand for themselves.
void check_switches(const Plan& p, Findings& f);

// What is trained: adapters beside frozen weights.
void check_lora_values(const Strategy& s, Findings& f);
void check_lora(const Plan& p, Findings& f);

// What happens when: layers per stage, microbatches, schedule, recomputation.
void check_stages(const Plan& p, Findings& f);
void check_batch(const Plan& p, Findings& f);
void check_schedule(const Plan& p, Findings& f);
void check_zero_pipeline(const Plan& p, Findings& f);
void check_recompute(const Plan& p, Findings& f);
void check_recompute_modules(const Plan& p, Findings& f);
void check_graph_modules(const Plan& p, Findings& f);
void check_offload(const Plan& p, Findings& f);

}  // namespace meshplan
