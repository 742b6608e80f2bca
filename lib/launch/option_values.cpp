#include "launch/option_values.hpp"

#include <algorithm>
#include <array>

namespace meshplan {
namespace {

struct OptionValues {
  std::string_view name, values;
};

// Choices of megatron/training/arguments.py and of the configuration classes that it takes options
// from (core/transformer/transformer_config.py, core/model_parallel_config.py,
// core/transformer/enums.py), August 2026, with those of releases before: alltoall_seq; and
// layernorm, rmsnorm, alibi and learned_parameters of Megatron-DeepSpeed and Pai-Megatron-Patch.
constexpr std::array kValues{
    OptionValues{"--attention-backend", "auto flash fused unfused local"},
    OptionValues{"--cp-comm-type", "p2p a2a allgather a2a+p2p"},
    OptionValues{"--cross-entropy-fusion-impl", "native te"},
    OptionValues{"--cuda-graph-impl", "none local transformer_engine full_iteration"},
    OptionValues{"--data-parallel-sharding-strategy",
                 "no_shard optim optim_grads optim_grads_params"},
    OptionValues{"--exp-avg-dtype", "fp32 fp16 bf16 fp8"},
    OptionValues{"--fp4-format", "e2m1"},
    OptionValues{"--fp8-format", "e4m3 hybrid"},
    OptionValues{"--fp8-recipe", "tensorwise delayed mxfp8 blockwise"},
    OptionValues{"--moe-flex-dispatcher-backend", "deepep hybridep ncclep"},
    OptionValues{"--moe-token-dispatcher-type", "allgather alltoall alltoall_seq flex"},
    OptionValues{"--normalization", "LayerNorm RMSNorm layernorm rmsnorm"},
    OptionValues{"--position-embedding-type",
                 "learned_absolute rope yarn mrope relative none alibi learned_parameters"},
    OptionValues{"--recompute-granularity", "full selective"},
    OptionValues{"--recompute-method", "uniform block"},
    OptionValues{"--rope-type", "rope yarn"},
    OptionValues{"--softmax-type", "vanilla off-by-one learnable"},
    OptionValues{"--transformer-impl", "local transformer_engine inference_optimized"},
};

}  // namespace

std::vector<std::string_view> option_values(std::string_view name) {
  const auto row = std::find_if(kValues.begin(), kValues.end(),
                                [&](const OptionValues& v) { return v.name == name; });
  std::vector<std::string_view> all;
  if (row == kValues.end()) return all;
  std::string_view rest = row->values;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    all.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return all;
}

bool is_option_value(std::string_view value, const std::vector<std::string_view>& choices) {
  if (value.empty() || value == "None" || value == "null" || value == "none") return true;
  value = value.substr(value.rfind('.') + 1);  // AttnBackend.auto
  return std::find(choices.begin(), choices.end(), value) != choices.end();
}

}  // namespace meshplan
