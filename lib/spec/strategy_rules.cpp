// What makes a strategy illegal. One small function per rule and one row per function; sources are
// the frameworks' own checks (A: megatron/training/arguments.py, T: core/transformer/
// transformer_config.py, P: core/parallel_state.py of Megatron-LM) and the arithmetic itself.
#include <algorithm>
#include <numeric>

#include "base/text.hpp"
#include "spec/findings.hpp"
#include "spec/strategy.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

constexpr std::int64_t kMostGpus = 1 << 24;
constexpr IntegerRange kDegree{1, kMostGpus};
constexpr IntegerRange kBatch{1, std::int64_t{1} << 31};

std::string n(std::int64_t value) { return std::to_string(value); }

// "'tp' must divide the 30 attention heads, got 8"
void must_divide(Findings& f, std::vector<std::string> keys, std::int64_t divisor,
                 std::int64_t value, const std::string& what, std::string hint = {}) {
  if (value % divisor == 0) return;
  const std::string text =
      "'" + keys.front() + "' must divide the " + n(value) + " " + what + ", got " + n(divisor);
  f.error(std::move(keys), text, std::move(hint));
}

// ---- of the strategy alone -----------------------------------------------------------------

void check_degrees(const Strategy& s, Findings& f) {
  f.check("tp", s.tp, kDegree);
  f.check("pp", s.pp, {1, 100'000});
  f.check("vp", s.vp, {1, 100'000});
  f.check("cp", s.cp, kDegree);
  f.check("ep", s.ep, kDegree);
  f.check("etp", s.etp, kDegree);
  f.check("dp", s.dp, kDegree);
  f.check("zero", s.zero, IntegerRange{0, 3});
  f.check("zero_group", s.zero_group, {0, kMostGpus});
}

void check_workload(const Strategy& s, Findings& f) {
  f.check("micro_batch", s.micro_batch, kBatch);
  f.check("global_batch", s.global_batch, kBatch);
  f.check("seq_len", s.seq_len, {1, 1 << 30});
  f.check("kernels.host_factor", s.kernels.host_factor, {0, 1000});
}

void check_lists(const Strategy& s, Findings& f) {
  for (const std::int64_t layers : s.stage_layers) {
    if (layers < 1 || layers > 100'000) {
      f.error({"stage_layers"},
              "'stage_layers' must hold 1 or more layers per pipeline rank, got " + n(layers));
      break;
    }
  }
  for (const std::int64_t layers : s.recompute_layers) {
    if (layers < 0 || layers > 100'000) {
      f.error({"recompute_layers"},
              "'recompute_layers' must hold layers per pipeline rank, got " + n(layers));
      break;
    }
  }
}

void check_order(const Strategy& s, Findings& f) {
  RankOrder sorted = s.order;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end()) return;
  f.error({"order"},
          "'order' must list each of tp, cp, ep, dp and pp once, got " + key_text(s.order));
}

void check_dtypes(const Strategy& s, Findings& f) {
  if (s.grad_dtype == Dtype::kFp8) {
    f.error({"grad_dtype"}, "'grad_dtype' must be fp32, fp16 or bf16, got fp8");
  }
}

// ---- against the model and the cluster -----------------------------------------------------

struct Plan {
  const Strategy& s;
  const ModelSpec& m;
  const ClusterSpec& c;
};

// The product of the degrees, without overflow; more than any cluster has if it is too large.
std::int64_t product(std::initializer_list<std::int64_t> degrees) {
  double total = 1;
  for (const std::int64_t degree : degrees) total *= static_cast<double>(degree);
  return total > 1e15 ? std::int64_t{1'000'000'000'000'000} : static_cast<std::int64_t>(total);
}

void check_gpus(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  const std::int64_t gpus = product({s.tp, s.pp, s.cp, s.dp});
  const std::int64_t available = num_gpus(p.c);
  if (gpus == available) return;
  const std::int64_t others = product({s.tp, s.pp, s.cp});
  std::string hint;
  if (others <= available && available % others == 0) {
    hint = "dp=" + n(available / others) + " would use all of them";
  } else if (others > available) {
    hint = "tp * pp * cp alone is " + with_thousands(others);
  } else {
    hint = "tp * pp * cp = " + with_thousands(others) + " does not divide the cluster";
  }
  f.error({"dp", "tp", "pp", "cp"},
          "tp * pp * cp * dp = " + n(s.tp) + " * " + n(s.pp) + " * " + n(s.cp) + " * " + n(s.dp) +
              " = " + with_thousands(gpus) + " devices, but the cluster has " +
              with_thousands(available),
          hint);
}

// T:1447; the same for latent attention, whose heads are split the same way.
void check_heads(const Plan& p, Findings& f) {
  must_divide(f, {"tp"}, p.s.tp, p.m.num_attention_heads, "attention heads");
}

// T:1465: groups are split, or copied where there are fewer of them than tensor ranks.
void check_query_groups(const Plan& p, Findings& f) {
  if (p.m.attention == AttentionKind::kMla) return;
  const std::int64_t groups = p.m.num_query_groups;
  if (groups % p.s.tp == 0 || p.s.tp % groups == 0) return;
  f.error({"tp"}, "'tp' must divide the " + n(groups) +
                      " query groups or be a multiple of them, got " + n(p.s.tp));
}

// core/utils.py divide(), called when the layers are built.
void check_mlp_width(const Plan& p, Findings& f) {
  if (num_moe_layers(p.m) < p.m.num_layers) {
    must_divide(f, {"tp"}, p.s.tp, p.m.ffn_hidden_size, "columns of 'ffn_hidden_size'");
  }
  if (!p.m.moe) return;
  must_divide(f, {"tp"}, p.s.tp, p.m.moe->shared_expert_ffn_hidden_size,
              "columns of 'moe.shared_expert_ffn_hidden_size'");
  must_divide(f, {"etp"}, p.s.etp, p.m.moe->expert_ffn_hidden_size,
              "columns of 'moe.expert_ffn_hidden_size'");
}

// A:1656, A:1657.
void check_experts(const Plan& p, Findings& f) {
  if (p.m.moe) {
    must_divide(f, {"ep"}, p.s.ep, p.m.moe->num_experts, "experts");
    return;
  }
  if (p.s.ep > 1)
    f.error({"ep"}, "'ep' is " + n(p.s.ep) + ", but the model has no experts", "ep=1");
  if (p.s.etp > 1) {
    f.error({"etp"}, "'etp' is " + n(p.s.etp) + ", but the model has no experts", "etp=1");
  }
}

// P:881: expert ranks are the same ranks, grouped differently.
void check_expert_ranks(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  if (!p.m.moe) return;
  if (s.etp > s.tp) {
    f.error({"etp", "tp"}, "'etp' is more than 'tp': " + n(s.etp) + " > " + n(s.tp));
  }
  const std::int64_t ranks = product({s.tp, s.cp, s.dp});
  const std::int64_t expert_ranks = product({s.etp, s.ep});
  if (ranks % expert_ranks == 0) return;
  f.error({"ep", "etp", "tp", "cp", "dp"},
          "etp * ep = " + n(expert_ranks) + " must divide tp * cp * dp = " + n(ranks));
}

// core/transformer/moe/moe_layer.py: raised at the first forward pass.
void check_expert_sequence(const Plan& p, Findings& f) {
  if (p.s.ep == 1 || p.s.tp == 1 || p.s.sequence_parallel) return;
  f.error({"sequence_parallel", "ep", "tp"}, "'ep' with 'tp' over 1 needs 'sequence_parallel'",
          "sequence_parallel=true");
}

// T:2614.
void check_expert_bias(const Plan& p, Findings& f) {
  const bool biased = p.m.moe && (p.m.linear_bias || p.m.expert_bias);
  if (!biased || p.s.etp == 1) return;
  f.error({"etp"}, "'etp' must be 1: the experts have biases, got " + n(p.s.etp), "etp=1");
}

void check_stages(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  if (p.m.num_layers < product({s.pp, s.vp})) {
    f.error({"pp", "vp"}, "pp * vp = " + n(product({s.pp, s.vp})) +
                              " chunks need as many layers, but the model has " +
                              n(p.m.num_layers));
    return;
  }
  if (s.stage_layers.empty()) {
    must_divide(f, {"vp"}, s.vp, p.m.num_layers, "layers");
    return;
  }
  if (static_cast<std::int64_t>(s.stage_layers.size()) != s.pp) {
    f.error({"stage_layers", "pp"}, "'stage_layers' lists " +
                                        n(static_cast<std::int64_t>(s.stage_layers.size())) +
                                        " pipeline ranks, but 'pp' is " + n(s.pp));
    return;
  }
  const std::int64_t sum =
      std::accumulate(s.stage_layers.begin(), s.stage_layers.end(), std::int64_t{0});
  if (sum != p.m.num_layers) {
    f.error({"stage_layers"}, "'stage_layers' adds up to " + n(sum) +
                                  " layers, but the model has " + n(p.m.num_layers));
  }
  // core/transformer/transformer_block.py: every rank holds vp chunks of the same size.
  for (const std::int64_t layers : s.stage_layers) {
    if (layers % s.vp == 0) continue;
    f.error({"stage_layers", "vp"},
            "'stage_layers' must be multiples of 'vp' " + n(s.vp) + ", got " + n(layers));
    return;
  }
}

// A:715.
void check_batch(const Plan& p, Findings& f) {
  const std::int64_t once = product({p.s.micro_batch, p.s.dp});
  if (p.s.global_batch % once == 0) return;
  f.error({"global_batch", "micro_batch", "dp"},
          "'global_batch' must be a multiple of micro_batch * dp = " + n(p.s.micro_batch) + " * " +
              n(p.s.dp) + " = " + n(once) + ", got " + n(p.s.global_batch));
}

bool has_whole_microbatches(const Strategy& s) {
  return s.global_batch % product({s.micro_batch, s.dp}) == 0;
}

// A:1002; schedules.py:1168, 1180 with groups of pp microbatches. Zero bubble: Qi et al. 2023
// (2401.10241), V-shaped schedules: 2405.15362, DualPipe: DeepSeek-V3 sec. 3.2.1.
void check_schedule(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  const std::string name{name_of(s.schedule)};
  const bool two_chunks = s.schedule == Schedule::kZbV || s.schedule == Schedule::kDualPipe;
  const bool interleaved = s.schedule == Schedule::kInterleaved;
  const bool simple = s.schedule == Schedule::kGpipe || s.schedule == Schedule::k1f1b;
  if (!simple && s.pp == 1) {
    f.error({"schedule", "pp"}, "schedule " + name + " needs 'pp' over 1", "schedule=1f1b");
    return;
  }
  if (two_chunks && s.vp != 2) {
    f.error({"vp", "schedule"},
            "schedule " + name + " has two chunks per rank, but 'vp' is " + n(s.vp), "vp=2");
  }
  if (interleaved && s.vp == 1) {
    f.error({"vp", "schedule"}, "schedule interleaved needs 'vp' over 1", "schedule=1f1b");
  }
  if (!two_chunks && !interleaved && s.vp > 1) {
    f.error({"vp", "schedule"},
            "schedule " + name + " has one chunk per rank, but 'vp' is " + n(s.vp),
            "schedule=interleaved, or vp=1");
  }
  if (!has_whole_microbatches(s)) return;
  const std::int64_t microbatches = num_microbatches(s);
  if (interleaved && microbatches % s.pp != 0) {
    f.error({"global_batch", "pp", "schedule"}, "schedule interleaved needs a multiple of 'pp' " +
                                                    n(s.pp) + " microbatches, got " +
                                                    n(microbatches));
  }
  if (s.schedule == Schedule::kDualPipe &&
      (s.pp % 2 != 0 || microbatches % 2 != 0 || microbatches < 2 * s.pp)) {
    f.error({"global_batch", "pp", "schedule"},
            "schedule dualpipe needs an even 'pp' and an even number of microbatches, 2 * pp or "
            "more; got pp " +
                n(s.pp) + " and " + n(microbatches) + " microbatches");
  }
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
            "'seq_len' must be a multiple of tp * cp = " + n(product({s.tp, s.cp})) +
                " with 'sequence_parallel', got " + n(s.seq_len));
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
    f.error({"seq_len", "cp"}, "'seq_len' must be a multiple of " + n(parts) +
                                   " for cp=" + n(s.cp) + ", got " + n(s.seq_len));
  }
  if (!ulysses) return;
  const bool mla = p.m.attention == AttentionKind::kMla;
  const std::int64_t groups = mla ? p.m.num_attention_heads : p.m.num_query_groups;
  const std::int64_t ranks = product({s.tp, s.cp});
  if (p.m.num_attention_heads % ranks != 0 || groups % ranks != 0) {
    f.error({"cp", "tp"},
            "cp_kind ulysses needs tp * cp = " + n(ranks) + " to divide the " +
                n(p.m.num_attention_heads) + " attention heads and the " + n(groups) +
                " query groups",
            "cp_kind=ring");
  }
}

void check_zero_group(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  if (s.zero_group == 0) return;
  must_divide(f, {"zero_group", "dp", "cp"}, s.zero_group, product({s.dp, s.cp}),
              "ranks of dp * cp");
  if (s.zero == 0) f.error({"zero_group", "zero"}, "'zero_group' needs 'zero' of 1 or more");
}

// Stages 2 and 3 free gradients or weights between microbatches, which a pipeline needs again.
// DeepSpeed refuses it (runtime/pipe/engine.py:76), and so does Megatron with PyTorch's FSDP2
// (A:1034) and Composer, which has no pipeline; Megatron-FSDP (A:1118) and torchtitan gather again.
void check_zero_pipeline(const Plan& p, Findings& f) {
  if (p.s.zero < 2 || p.s.pp == 1) return;
  switch (p.s.framework) {
    case Framework::kMegatron:
    case Framework::kTorchtitan:
      return;
    case Framework::kMegatronDeepspeed:
    case Framework::kDeepspeed:
    case Framework::kFsdp:
    case Framework::kNanotron:
    case Framework::kLlmFoundry:
    case Framework::kInternEvo:
      break;
  }
  f.error({"zero", "pp", "framework"},
          std::string(name_of(p.s.framework)) + " cannot combine zero=" + n(p.s.zero) +
              " with pp=" + n(p.s.pp),
          "zero=1, or pp=1");
}

// A:1025, A:1028.
void check_overlap(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  if (s.framework != Framework::kMegatron) return;
  if (s.overlap.param_gather && s.zero > 0 && !s.overlap.grad_reduce) {
    f.error({"overlap.param_gather", "overlap.grad_reduce"},
            "'overlap.param_gather' needs 'overlap.grad_reduce'");
  }
}

void check_recompute(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  if (s.recompute_layers.empty()) return;
  if (static_cast<std::int64_t>(s.recompute_layers.size()) != s.pp) {
    f.error({"recompute_layers", "pp"},
            "'recompute_layers' lists " + n(static_cast<std::int64_t>(s.recompute_layers.size())) +
                " pipeline ranks, but 'pp' is " + n(s.pp));
    return;
  }
  if (!s.stage_layers.empty() && static_cast<std::int64_t>(s.stage_layers.size()) != s.pp) return;
  const std::vector<std::int64_t> layers = stage_layers(s, p.m);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (s.recompute_layers[i] <= layers[i]) continue;
    f.error({"recompute_layers"}, "'recompute_layers' asks for " + n(s.recompute_layers[i]) +
                                      " layers of pipeline rank " + std::to_string(i) +
                                      ", which has " + n(layers[i]));
    return;
  }
}

void check_precision(const Plan& p, Findings& f) {
  const DeviceSpec& d = p.c.device;
  const Precision wanted = p.s.precision;
  if (d.peak[static_cast<std::size_t>(wanted)].si() > 0) return;
  const std::string name{name_of(wanted)};
  if (wanted == Precision::kTf32 && peak_rate(d, wanted).si() > 0) {
    f.warning({"precision"}, d.name + " has no tf32: it computes in fp32");
    return;
  }
  std::string hint;
  if (wanted == Precision::kBf16 && d.architecture == Architecture::kVolta) hint = "precision=fp16";
  if (wanted == Precision::kFp8) hint = "precision=bf16";
  f.error({"precision"}, d.name + " does not compute in " + name, hint);
}

// A:1354 for learned positions; others extrapolate.
void check_positions(const Plan& p, Findings& f) {
  if (p.s.seq_len <= p.m.max_seq_length) return;
  f.warning({"seq_len"}, "'seq_len' " + n(p.s.seq_len) +
                             " is more than the model's 'max_seq_length' " + n(p.m.max_seq_length));
}

// Elements of the widest tensors of all layers must be countable in 64 bits, bytes included.
void check_countable(const Plan& p, Findings& f) {
  const double tokens = static_cast<double>(p.s.micro_batch) * static_cast<double>(p.s.seq_len);
  const double experts = p.m.moe ? static_cast<double>(p.m.moe->top_k) *
                                       static_cast<double>(p.m.moe->expert_ffn_hidden_size)
                                 : 0;
  const double heads = static_cast<double>(p.m.num_attention_heads);
  const double width = static_cast<double>(p.m.hidden_size + p.m.ffn_hidden_size) + experts +
                       heads * static_cast<double>(p.m.head_dim) +
                       (p.s.flash_attention ? 0 : heads * static_cast<double>(p.s.seq_len));
  const double elements =
      tokens * (width * static_cast<double>(p.m.num_layers) + static_cast<double>(p.m.vocab_size));
  constexpr double kMost = 1e16;
  if (elements <= kMost) return;
  f.error({"micro_batch", "seq_len"}, "a microbatch of " + n(p.s.micro_batch) + " sequences of " +
                                          n(p.s.seq_len) + " tokens has about " +
                                          human_count(elements) + " activations, more than the " +
                                          human_count(kMost) + " that can be planned for");
}

using OwnRule = void (*)(const Strategy&, Findings&);
constexpr OwnRule kOwnRules[] = {check_degrees, check_workload, check_lists, check_order,
                                 check_dtypes};

using Rule = void (*)(const Plan&, Findings&);
constexpr Rule kRules[] = {
    check_gpus,
    check_heads,
    check_query_groups,
    check_mlp_width,
    check_experts,
    check_expert_ranks,
    check_expert_sequence,
    check_expert_bias,
    check_stages,
    check_batch,
    check_schedule,
    check_sequence_parallel,
    check_context_parallel,
    check_zero_group,
    check_zero_pipeline,
    check_overlap,
    check_recompute,
    check_precision,
    check_positions,
    check_countable,
};

}  // namespace

Findings findings(const Strategy& s) {
  Findings f;
  for (const OwnRule rule : kOwnRules) rule(s, f);
  return f;
}

Findings findings(const Strategy& s, const ModelSpec& m, const ClusterSpec& c) {
  Findings f = findings(s);
  if (f.has_errors()) return f;  // the rules below divide by what is out of range here
  for (const Rule rule : kRules) rule({s, m, c}, f);
  return f;
}

Diagnostics validate(const Strategy& s, const ModelSpec& m, const ClusterSpec& c) {
  return findings(s, m, c).diagnostics();
}

}  // namespace meshplan
