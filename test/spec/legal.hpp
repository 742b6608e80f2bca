#pragma once
// A legal strategy, and a row of a table that spoils it.
#include <string>

#include "frameworks/preset.hpp"
#include "spec/strategy.hpp"
#include "support/catch.hpp"

namespace meshplan {

inline ModelSpec model() {
  ModelSpec m;
  m.name = "m";
  m.num_layers = 24;
  m.hidden_size = 4096;
  m.num_attention_heads = 32;
  m.num_query_groups = 8;
  m.head_dim = 128;
  m.ffn_hidden_size = 16384;
  m.attention = AttentionKind::kGqa;
  m.vocab_size = 32000;
  m.max_seq_length = 4096;
  return m;
}

inline ModelSpec experts() {
  ModelSpec m = model();
  m.moe = MoeSpec{.num_experts = 8, .top_k = 2, .expert_ffn_hidden_size = 1024};
  return m;
}

inline ClusterSpec cluster(std::int64_t gpus) {
  ClusterSpec c;
  c.name = "c";
  c.nodes = gpus / 8;
  c.gpus_per_node = 8;
  c.device.name = "a100";
  c.device.architecture = Architecture::kAmpere;
  c.device.peak[static_cast<std::size_t>(Precision::kBf16)] = FlopsPerSecond{312e12};
  c.device.peak[static_cast<std::size_t>(Precision::kFp32)] = FlopsPerSecond{19.5e12};
  return c;
}

// 4 * 2 * 1 * 8 = 64 devices, 8 microbatches.
inline Strategy legal() {
  Strategy s = framework_preset(Framework::kMegatron);
  s.tp = 4, s.pp = 2, s.dp = 8;
  s.sequence_parallel = true;
  s.micro_batch = 1, s.global_batch = 64, s.seq_len = 4096;
  return s;
}

using Spoil = void (*)(Strategy&, ModelSpec&, ClusterSpec&);
struct RuleCase {
  const char* why;
  Spoil spoil;
  const char* message;
};

inline std::string text_after(const RuleCase& row) {
  Strategy s = legal();
  ModelSpec m = model();
  ClusterSpec c = cluster(64);
  row.spoil(s, m, c);
  const Diagnostics found = validate(s, m, c);
  CHECK(is_legal(s, m, c) == !has_errors(found));
  return to_text(found);
}

}  // namespace meshplan
