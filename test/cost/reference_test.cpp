// Peaks of PyTorch's allocator (torch.cuda.max_memory_allocated) in training steps that
// scripts/gpu_reference.py ran on one H200, 2026-11-22, PyTorch 2.11.0, CUDA 13.0.
#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "frameworks/preset.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

struct Measured {
  const char* name;
  bool gpt;
  std::int64_t layers, hidden, heads, groups, ffn, vocab, seq, micro;
  Recompute recompute;
  std::int64_t bytes;
};

constexpr Measured kRuns[] = {
    {"llama-l4-h4096-s4096-b1", false, 4, 4096, 32, 32, 11008, 32000, 4096, 1, Recompute::kNone,
     10659234304},
    {"llama-l8-h4096-s4096-b1", false, 8, 4096, 32, 32, 11008, 32000, 4096, 1, Recompute::kNone,
     18035268096},
    {"gpt-l4-h4096-s2048-b2", true, 4, 4096, 32, 32, 16384, 51200, 2048, 2, Recompute::kNone,
     12202950144},
    {"gpt-l8-h4096-s2048-b2", true, 8, 4096, 32, 32, 16384, 51200, 2048, 2, Recompute::kNone,
     19185937920},
    {"llama-l8-h4096-s4096-b1-full", false, 8, 4096, 32, 32, 11008, 32000, 4096, 1,
     Recompute::kFull, 15386959360},
    {"gpt-l8-h4096-s2048-b2-full", true, 8, 4096, 32, 32, 16384, 51200, 2048, 2, Recompute::kFull,
     16488865792},
    {"llama-l4-h4096-s8192-b1", false, 4, 4096, 32, 8, 14336, 128256, 8192, 1, Recompute::kNone,
     29862019584},
    {"llama-l2-h8192-s4096-b1", false, 2, 8192, 64, 8, 28672, 32000, 4096, 1, Recompute::kNone,
     18171150336},
    {"llama-l4-h8192-s4096-b1", false, 4, 8192, 64, 8, 28672, 32000, 4096, 1, Recompute::kNone,
     31861629952},
    {"gpt-l24-h2048-s2048-b4", true, 24, 2048, 16, 16, 8192, 51200, 2048, 4, Recompute::kNone,
     26606603776},
    {"llama-l16-h2048-s4096-b2", false, 16, 2048, 32, 8, 8192, 128256, 4096, 2, Recompute::kNone,
     33835063808},
    {"gpt-l12-h768-s1024-b16", true, 12, 768, 12, 12, 3072, 51200, 1024, 16, Recompute::kNone,
     16026597888},
    {"llama-l8-h4096-s2048-b4-full", false, 8, 4096, 32, 32, 11008, 32000, 2048, 4,
     Recompute::kFull, 16230637056},
};

ModelSpec model_of(const Measured& r) {
  ModelSpec m = plain_gpt(r.layers, r.hidden, r.heads);
  m.num_query_groups = r.groups;
  m.ffn_hidden_size = r.ffn;
  m.vocab_size = r.vocab;
  m.max_seq_length = r.seq;
  m.tied_embeddings = false;
  m.dropout = 0;
  if (r.gpt) return m;
  m.gated_mlp = true;
  m.linear_bias = false;
  m.activation = Activation::kSilu;
  m.norm = Norm::kRmsNorm;
  m.position_embedding = PositionEmbedding::kRope;
  return m;
}

// As strategy() of scripts/gpu_reference.py.
Strategy strategy_of(const Measured& r) {
  Strategy s = framework_preset(Framework::kFsdp);
  s.dp = 1;
  s.zero = 0;
  s.micro_batch = s.global_batch = r.micro;
  s.seq_len = r.seq;
  s.master_weights = false;
  s.optimizer_dtype = Dtype::kBf16;
  s.recompute = r.recompute;
  s.runtime.fused_norm = true;
  return s;
}

}  // namespace

TEST_CASE("[F-MEM-5] peaks of PyTorch's training steps on one GPU are predicted within 3 %") {
  const auto run = GENERATE(from_range(std::begin(kRuns), std::end(kRuns)));
  CAPTURE(run.name);
  const ModelSpec m = model_of(run);
  ClusterSpec c = plain_cluster(1);
  const MemoryBreakdown memory = cost_of(m, c, complete(strategy_of(run), m, c)).memory();
  const double tensors = (memory.peak - memory.reserved).si();
  CHECK(tensors / static_cast<double>(run.bytes) == Approx(1).margin(0.03));
}

TEST_CASE("[F-MEM-5] gradients are not late with a second microbatch or with buffers for them") {
  const Measured& run = kRuns[0];
  const ModelSpec m = model_of(run);
  const ClusterSpec c = plain_cluster(1);
  const auto memory = [&](const Strategy& s) { return cost_of(m, c, complete(s, m, c)).memory(); };
  Strategy once = strategy_of(run), twice = once, buffered = once;
  twice.global_batch = 2 * run.micro;
  buffered.runtime.late_gradients = false;
  const MemoryBreakdown late = memory(once), kept = memory(twice);
  CHECK(kept.peak > late.peak);
  CHECK(kept.gradients == late.gradients);
  // Of gradients and what the pass frees, only the larger is held at once.
  CHECK(late.activations + late.buffers + late.gradients ==
        std::max(kept.activations + kept.buffers, late.gradients));
  CHECK(memory(buffered).peak == kept.peak);
}
