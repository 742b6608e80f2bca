#include <algorithm>

#include "base/text.hpp"
#include "spec/axes.hpp"
#include "spec/layer_rules.hpp"
#include "spec/strategy_keys.hpp"
#include "spec/strategy_rules.hpp"

namespace meshplan {
namespace {

constexpr std::int64_t kMostProduct = 1'000'000'000'000'000;

// Those of the layers that have any, each once.
std::vector<MoeSpec> distinct_experts(const Plan& p) {
  std::vector<MoeSpec> all;
  if (!p.m.moe) return all;
  for (const LayerSpec& layer : p.layers()) {
    const MoeSpec* experts = experts_of(layer);
    if (experts != nullptr && std::find(all.begin(), all.end(), *experts) == all.end()) {
      all.push_back(*experts);
    }
  }
  return all;
}

}  // namespace

std::int64_t product(std::initializer_list<std::int64_t> degrees) {
  constexpr auto kMost = static_cast<double>(kMostProduct);
  double total = 1;
  for (const std::int64_t degree : degrees) total *= static_cast<double>(degree);
  return static_cast<std::int64_t>(std::clamp(total, -kMost, kMost));
}

void must_divide(Findings& f, std::initializer_list<std::string_view> keys, std::int64_t divisor,
                 std::int64_t value, std::string_view what) {
  if (value % divisor == 0) return;
  std::string text = "'" + std::string(*keys.begin()) + "' must divide the ";
  text += std::to_string(value) + " " + std::string(what) + ", got " + std::to_string(divisor);
  f.error({keys.begin(), keys.end()}, std::move(text));
}

void check_gpus(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  const std::int64_t gpus = product({s.tp, s.pp, s.cp, s.dp});
  const std::int64_t available = num_gpus(p.c);
  if (gpus == available) return;
  const std::int64_t others = product({s.tp, s.pp, s.cp});
  std::string hint;
  if (others <= available && available % others == 0) {
    hint = "dp=" + std::to_string(available / others) + " would use all of them";
  } else if (others > available) {
    hint = "tp * pp * cp alone is " + with_thousands(others);
  } else {
    hint = "tp * pp * cp = " + with_thousands(others) + " does not divide the cluster";
  }
  f.error({"dp", "tp", "pp", "cp"},
          "tp * pp * cp * dp = " + std::to_string(s.tp) + " * " + std::to_string(s.pp) + " * " +
              std::to_string(s.cp) + " * " + std::to_string(s.dp) +
              (gpus < kMostProduct ? " = " : " is more than ") + with_thousands(gpus) +
              " devices, but the cluster has " + with_thousands(available),
          hint);
}

namespace {

// Of each kind of layer the first one that breaks a rule is reported.
template <class Part, class Check>
void check_layers(const Plan& p, Findings& f, const Part& part, const Check& check) {
  std::vector<std::size_t> broken;
  for (const LayerSpec& layer : p.layers()) {
    const std::size_t kind = part(layer).index(), before = f.all().size();
    if (std::find(broken.begin(), broken.end(), kind) != broken.end()) continue;
    std::visit(check, part(layer));
    if (f.all().size() > before) broken.push_back(kind);
  }
}

constexpr auto kMixer = [](const LayerSpec& layer) -> const Mixer& { return layer.mixer; };
constexpr auto kFeedForward = [](const LayerSpec& layer) -> const FeedForward& {
  return layer.feed_forward;
};

}  // namespace

void check_mixers(const Plan& p, Findings& f) {
  check_layers(p, f, kMixer, [&](const auto& kind) { check_split(kind, p, f); });
}

void check_feed_forwards(const Plan& p, Findings& f) {
  check_layers(p, f, kFeedForward, [&](const auto& kind) { check_split(kind, p, f); });
}

// A:1656, A:1657.
void check_experts(const Plan& p, Findings& f) {
  for (const MoeSpec& moe : distinct_experts(p)) {
    must_divide(f, {"ep"}, p.s.ep, moe.num_experts, "experts");
  }
  if (p.m.moe) return;
  if (p.s.ep > 1)
    f.error({"ep"}, "'ep' is " + std::to_string(p.s.ep) + ", but the model has no experts", "ep=1");
  if (p.s.etp > 1) {
    f.error({"etp"}, "'etp' is " + std::to_string(p.s.etp) + ", but the model has no experts",
            "etp=1");
  }
}

// P:881: expert ranks are the same ranks, grouped differently.
void check_expert_ranks(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  if (!p.m.moe) return;
  if (s.etp > s.tp) {
    f.error({"etp", "tp"},
            "'etp' is more than 'tp': " + std::to_string(s.etp) + " > " + std::to_string(s.tp));
  }
  const std::int64_t ranks = product({s.tp, s.cp, s.dp});
  const std::int64_t expert_ranks = product({s.etp, s.ep});
  if (ranks % expert_ranks != 0) {
    f.error({"ep", "etp", "tp", "cp", "dp"},
            "etp * ep = " + std::to_string(expert_ranks) +
                " must divide tp * cp * dp = " + std::to_string(ranks));
  } else if (!keeps_pipeline_ranks(s, p.m)) {
    f.error({"order", "ep", "etp"},
            "'order' " + key_text(s.order) + " with etp=" + std::to_string(s.etp) +
                " and ep=" + std::to_string(s.ep) +
                " would put a device on two pipeline ranks: inside of 'pp' experts must have as "
                "many ranks as the rest has",
            "order=" + key_text(kDefaultOrder));
  }
}

// core/transformer/moe/moe_layer.py: raised at the first forward pass.
void check_expert_sequence(const Plan& p, Findings& f) {
  if (p.s.ep == 1 || p.s.tp == 1 || p.s.sequence_parallel) return;
  f.error({"sequence_parallel", "ep", "tp"}, "'ep' with 'tp' over 1 needs 'sequence_parallel'",
          "sequence_parallel=true");
}

// T:3004: --overlap-moe-expert-parallel-comm.
void check_expert_overlap(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  if (s.runtime.allgather_dispatcher && s.runtime.flex_dispatcher) {
    f.error({"kernels.allgather_dispatcher", "kernels.flex_dispatcher"},
            "tokens have one dispatcher: 'kernels.allgather_dispatcher' excludes "
            "'kernels.flex_dispatcher'",
            "kernels.flex_dispatcher=false");
  }
  if (s.runtime.allgather_dispatcher && s.overlap.ep) {
    f.error({"overlap.ep", "kernels.allgather_dispatcher"},
            "'overlap.ep' is of tokens that are sent, not gathered", "overlap.ep=false");
    return;
  }
  if (s.overlap.shared_experts) {
    const std::string key = "'overlap.shared_experts'", hint = "overlap.shared_experts=false";
    if (s.overlap.ep) {
      f.error({"overlap.shared_experts", "overlap.ep"}, key + " excludes 'overlap.ep'", hint);
    } else if (s.runtime.allgather_dispatcher) {
      f.error({"overlap.shared_experts", "kernels.allgather_dispatcher"},
              key + " is of tokens that are sent, not gathered", hint);
    } else if (s.recompute == Recompute::kSelective &&
               s.recompute_modules.has(RecomputeModule::kSharedExperts)) {
      f.error({"overlap.shared_experts", "recompute_modules"},
              key + " excludes module shared_experts", hint);
    }
  }
  if (!s.overlap.ep) {
    if (s.overlap.delay_wgrad_compute) {
      f.error({"overlap.delay_wgrad_compute", "overlap.ep"},
              "'overlap.delay_wgrad_compute' needs 'overlap.ep'",
              "overlap.delay_wgrad_compute=false");
    }
    if (s.runtime.single_device_connection) {
      f.warning({"runtime.single_device_connection"},
                "'runtime.single_device_connection' does nothing without 'overlap.ep'");
    }
    return;
  }
  if (s.runtime.single_device_connection) {
    f.warning({"runtime.single_device_connection", "overlap.ep"},
              "'runtime.single_device_connection' leaves all of the exchange of tokens exposed");
  }
  if (s.ep == 1) {
    f.error({"overlap.ep", "ep"}, "'overlap.ep' needs 'ep' over 1", "overlap.ep=false");
  } else if (s.pp > 1 && s.schedule != Schedule::kInterleaved) {
    f.error({"overlap.ep", "schedule"}, "'overlap.ep' with a pipeline needs schedule interleaved",
            "overlap.ep=false");
  } else if (s.recompute == Recompute::kFull) {
    f.error({"overlap.ep", "recompute"}, "'overlap.ep' excludes full recomputation",
            "overlap.ep=false");
  } else if (s.offload.activations) {
    // core/pipeline_parallel/combined_1f1b.py calls layers' parts, transformer_block.py offloads.
    f.error({"overlap.ep", "offload.activations"},
            "'overlap.ep' excludes 'offload.activations': its schedule passes by what offloads",
            "overlap.ep=false");
  } else if (s.zero >= 2 && s.runtime.cuda_graph == CudaGraph::kLayer) {
    f.error({"overlap.ep", "zero", "kernels.cuda_graph"},
            "'overlap.ep' with 'zero' over 1 excludes CUDA graphs of layers", "overlap.ep=false");
  }
}

// T:2614, since a329dd6da5 (2025-09-22).
void check_expert_bias(const Plan& p, Findings& f) {
  const bool biased = p.m.moe && (p.m.linear_bias || p.m.expert_bias);
  if (!biased || p.s.etp == 1 || p.s.runtime.split_expert_biases) return;
  f.error({"etp"}, "'etp' must be 1: the experts have biases, got " + std::to_string(p.s.etp),
          "etp=1");
}

// A:1430 drops the flag without tensor parallelism; the run-time check of an uneven split is in
// tensor_parallel/mappings.py.
void check_sequence_parallel(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  if (!s.sequence_parallel) return;
  if (s.tp == 1) {
    f.error({"sequence_parallel", "tp"}, "'sequence_parallel' needs 'tp' over 1",
            "sequence_parallel=false");
  } else if (s.seq_len % product({s.tp, s.cp}) != 0) {
    f.error({"seq_len", "tp", "cp"},
            "'seq_len' must be a multiple of tp * cp = " + std::to_string(product({s.tp, s.cp})) +
                " with 'sequence_parallel', got " + std::to_string(s.seq_len));
  }
}

// A:1336: two chunks per rank balance the causal mask. Ulysses has no such need outside of
// Megatron, but splits heads (DeepSpeed sequence/layer.py; Transformer Engine context_parallel).
void check_context_parallel(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  if (s.cp == 1) return;
  const bool ulysses = s.cp_kind == CpKind::kUlysses;
  const std::int64_t parts =
      product({ulysses && s.framework != Framework::kMegatron ? 1 : 2, s.cp});
  if (s.seq_len % parts != 0) {
    f.error({"seq_len", "cp"}, "'seq_len' must be a multiple of " + std::to_string(parts) +
                                   " for cp=" + std::to_string(s.cp) + ", got " +
                                   std::to_string(s.seq_len));
  }
  check_layers(p, f, kMixer, [&](const auto& kind) { check_context_split(kind, p, f); });
}

void check_zero_group(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  if (s.zero_group == 0) return;
  must_divide(f, {"zero_group", "dp", "cp"}, s.zero_group, product({s.dp, s.cp}),
              "ranks of dp * cp");
  if (s.zero == 0) f.error({"zero_group", "zero"}, "'zero_group' needs 'zero' of 1 or more");
}

}  // namespace meshplan
