// What a plan consists of, written down by hand for small plans.
#include "validate/operations.hpp"

#include "cost/step.hpp"
#include "cost/support.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

ModelSpec llama() {
  ModelSpec m = plain_gpt(4, 2048, 16);
  m.num_query_groups = 4;
  m.attention = AttentionKind::kGqa;
  m.ffn_hidden_size = 5632;
  m.gated_mlp = true;
  m.norm = Norm::kRmsNorm;
  m.position_embedding = PositionEmbedding::kRope;
  m.tied_embeddings = false;
  m.linear_bias = false;
  m.dropout = 0;
  m.vocab_size = 32000;
  return m;
}

// 1,024 tokens per sequence, one sequence per microbatch, four microbatches.
Strategy strategy(std::int64_t tp, std::int64_t pp, std::int64_t dp) {
  Strategy s = plain_strategy(tp, pp, dp);
  s.precision = Precision::kBf16;
  s.flash_attention = true;
  s.sequence_parallel = tp > 1;
  s.seq_len = 1024;
  s.global_batch = 4 * dp;
  return s;
}

std::vector<PlannedOperation> planned(const Strategy& s, std::int64_t gpus) {
  const ModelSpec m = llama();
  const ClusterSpec c = plain_cluster(gpus);
  return planned_operations(m, c, cost_of(m, c, complete(s, m, c)));
}

const PlannedOperation& find(const std::vector<PlannedOperation>& all, const std::string& part,
                             const std::string& name) {
  for (const PlannedOperation& p : all) {
    if (p.part == part && p.name == name) return p;
  }
  throw std::runtime_error("no operation " + part + " " + name);
}

}  // namespace

TEST_CASE("tensor-parallel collectives: tokens x hidden in groups of neighbours, per layer") {
  const auto all = planned(strategy(2, 1, 4), 8);
  const PlannedOperation& scatter = find(all, "tp", "reduce-scatter");
  // 1024 x 2048 bf16. Four microbatches: four layers, two pairs of linear layers each, forward and
  // backward; the embedding and the head once more.
  CHECK(*scatter.operation == Operation{CollectiveOperation{Collective::kReduceScatter,
                                                            Bytes{1024 * 2048 * 2},
                                                            Dtype::kBf16,
                                                            {2, 1, 0, true},
                                                            false}});
  CHECK(scatter.count_per_step == 4 * (4 * 2 * 2 + 2));
  CHECK(scatter.ranks == std::vector<std::int64_t>{0, 1});
  CHECK(scatter.groups_at_once == 4);
}

TEST_CASE("data-parallel collectives move gradients in fp32 and weights in bf16, once") {
  const auto all = planned(strategy(2, 1, 4), 8);
  const auto& scatter = find(all, "dp", "reduce-scatter");
  const auto& gather = find(all, "dp", "all-gather");
  const auto& reduced = std::get<CollectiveOperation>(*scatter.operation);
  const auto& gathered = std::get<CollectiveOperation>(*gather.operation);
  CHECK(reduced.dtype == Dtype::kFp32);
  CHECK(gathered.dtype == Dtype::kBf16);
  CHECK(reduced.bytes == gathered.bytes * 2);
  CHECK(reduced.group == RankGroup{4, 2, 0, true});
  CHECK(scatter.ranks == std::vector<std::int64_t>{0, 2, 4, 6});
  CHECK(scatter.count_per_step == 1);
}

TEST_CASE("pipeline sends join a rank and the same one of the next stage") {
  const auto all = planned(strategy(2, 2, 2), 8);
  const auto& send = find(all, "pp", "send-recv");
  const auto& op = std::get<CollectiveOperation>(*send.operation);
  CHECK(op.bytes == Bytes{1024 * 2048 * 2 / 2});  // split over the tensor ranks
  CHECK(op.group == RankGroup{2, 4, 0, true});
  CHECK(op.bidirectional);  // a gradient comes back while the activation goes
  CHECK(send.ranks == std::vector<std::int64_t>{0, 4});
}

TEST_CASE("matrix products have the sharded shapes of all three passes") {
  const auto all = planned(strategy(2, 1, 4), 8);
  // (16 + 2 x 4) heads of 128 over two ranks.
  CHECK(*find(all, "compute", "qkv forward").operation ==
        Operation{GemmOperation{1024, 1536, 2048, 1, GemmLayout::kForward, Precision::kBf16}});
  CHECK(
      *find(all, "compute", "qkv backward").operation ==
      Operation{GemmOperation{1024, 2048, 1536, 1, GemmLayout::kInputGradient, Precision::kBf16}});
  CHECK(*find(all, "compute", "qkv weight gradient").operation ==
        Operation{GemmOperation{1536, 2048, 1024, 1, GemmLayout::kWeightGradient, Precision::kBf16,
                                true}});
  CHECK(find(all, "compute", "qkv forward").count_per_step == 4 * 4);
}

TEST_CASE("attention has the local heads and the causal mask, forward and backward") {
  const auto all = planned(strategy(2, 1, 4), 8);
  const AttentionOperation wanted{1, 8, 2, 1024, 1024, 128, 128, true, false, Dtype::kBf16};
  CHECK(*find(all, "compute", "attention forward").operation == Operation{wanted});
  AttentionOperation backward = wanted;
  backward.backward = true;
  CHECK(*find(all, "compute", "attention backward").operation == Operation{backward});
}

namespace {

// Four microbatches on four context parallel ranks.
std::vector<PlannedOperation> planned_with_context(CpKind kind) {
  Strategy s = strategy(1, 1, 1);
  s.cp = 4;
  s.cp_kind = kind;
  s.global_batch = 4;
  return planned(s, 4);
}

}  // namespace

TEST_CASE("ring attention is one causal square and whole halves, each measured as it is") {
  const auto all = planned_with_context(CpKind::kRing);
  const AttentionOperation own{1, 16, 4, 256, 256, 128, 128, true, false, Dtype::kBf16};
  AttentionOperation keys = own, queries = own;
  keys.keys = queries.queries = 128;
  keys.causal = queries.causal = false;
  CHECK(*find(all, "compute", "attention forward").operation == Operation{own});
  CHECK(*find(all, "compute", "attention to half the keys forward").operation == Operation{keys});
  queries.backward = true;
  CHECK(*find(all, "compute", "attention of half the queries backward").operation ==
        Operation{queries});
  // Four microbatches, four layers; three steps with keys of others.
  CHECK(find(all, "compute", "attention forward").count_per_step == 16);
  CHECK(find(all, "compute", "attention to half the keys forward").count_per_step == 24);
  CHECK(find(all, "compute", "attention of half the queries forward").count_per_step == 24);
}

TEST_CASE("attention over gathered keys is measured on the last rows of the mask") {
  const auto all = planned_with_context(CpKind::kAllGather);
  const AttentionOperation first{1, 16, 4, 128, 128, 128, 128, true, false, Dtype::kBf16};
  AttentionOperation last = first;
  last.keys = 1024;
  CHECK(*find(all, "compute", "attention of the first chunk forward").operation ==
        Operation{first});
  CHECK(*find(all, "compute", "attention of the last chunk forward").operation == Operation{last});
}

TEST_CASE("memory-bound kernels move as many bytes as predicted") {
  const auto all = planned(strategy(2, 1, 4), 8);
  const auto bytes = [&](const std::string& part, const std::string& name) {
    return traffic(std::get<MemoryOperation>(*find(all, part, name).operation)).si();
  };
  // Sequence parallelism halves the tokens of norms and residuals: 512 x 2048 bf16 elements.
  const double n = 512.0 * 2048 * 2;
  CHECK(bytes("compute", "input norm forward") == Approx(2 * n).epsilon(1e-2));
  CHECK(bytes("compute", "residual forward") == Approx(3 * n).epsilon(1e-2));
  CHECK(bytes("compute", "activation forward") == Approx(3 * 1024.0 * 2816 * 2).epsilon(1e-2));
  CHECK(find(all, "optimizer", "optimizer step").count_per_step == 1);
}

TEST_CASE("what no benchmark repeats is listed with its reason") {
  Strategy s = strategy(1, 1, 8);
  const auto all = planned(s, 8);
  const PlannedOperation& loss = find(all, "compute", "cross entropy forward");
  CHECK_FALSE(loss.operation.has_value());
  CHECK(loss.why_not == "no micro-benchmark is like it");
}
