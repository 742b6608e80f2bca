// Adapters beside frozen weights: what they hold, move and compute, against numbers typed by hand.
#include <cmath>
#include <string_view>

#include "cost/llama.hpp"
#include "cost/step.hpp"
#include "io/load.hpp"
#include "kernels/kernels.hpp"
#include "model/flops.hpp"
#include "model/kinds.hpp"
#include "model/parts.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

using enum LoraTarget;

ModelSpec shipped(const std::string& name) {
  const Result<ModelSpec> model = load_model(name, DataFolders({MESHPLAN_SOURCE_DIR}));
  REQUIRE(model);
  return *model;
}

Strategy lora_strategy(std::int64_t rank, LoraTargets targets) {
  Strategy s = modern_strategy(1, 1, 1);
  s.lora.rank = rank;
  s.lora.targets = targets;
  return s;
}

BlockCosts costs_of(const ModelSpec& m, const Strategy& s) {
  return block_costs(m, plain_cluster(s.tp * s.dp * s.cp), s);
}

double flops_of(const BlockOps& ops, std::string_view name, Pass pass) {
  double sum = 0;
  for (const KernelOp& op : ops.kernels) {
    if (op.name == name && op.pass == pass) sum += op.flops;
  }
  return sum;
}

double bytes_of(const BlockOps& ops, std::string_view name, Pass pass) {
  double sum = 0;
  for (const KernelOp& op : ops.kernels) {
    if (op.name == name && op.pass == pass) sum += op.bytes;
  }
  return sum;
}

BlockOps layer_ops(const ModelSpec& m, const Strategy& s) {
  return block_ops(m, plain_cluster(s.tp * s.dp * s.cp), s)[kFirstLayerBlock];
}

}  // namespace

TEST_CASE("[F-LORA-1] bytes of frozen weights with their scales") {
  CHECK(frozen_bytes_each(FrozenDtype::kTraining, 2) == 2);
  CHECK(frozen_bytes_each(FrozenDtype::kFp8, 2) == 1);
  CHECK(frozen_bytes_each(FrozenDtype::kNvfp4, 2) == 0.5625);
  // QLoRA, sec. 3: 0.127 bits a parameter for the constants of double quantisation.
  CHECK(frozen_bytes_each(FrozenDtype::kNf4, 2) * 8 == Approx(4.127).margin(0.0005));
}

TEST_CASE("[F-LORA-2] adapters of Llama-2 70B have the parameters that NeMo prints") {
  // 44.6 M trainable parameters of rank 16 on linear_qkv and linear_proj: 80 layers of
  // 16 (8192 + 10240) + 16 (8192 + 8192).
  const ModelSpec m = shipped("llama-2-70b");
  Strategy s = lora_strategy(16, {kQkv, kProj});
  const BlockCosts blocks = costs_of(m, s);
  const BlockParameters& layer = blocks[kFirstLayerBlock].parameters;
  CHECK(80 * layer.dense == 44'564'480);
  CHECK(layer.experts == 0);
  CHECK(blocks.embedding().parameters.dense == 0);
  CHECK(blocks.head().parameters.dense == 0);
  // The frozen ones are all that the model has.
  s.lora.rank = 0;
  CHECK(layer.frozen == costs_of(m, s)[kFirstLayerBlock].parameters.dense);
  CHECK(layer.frozen_bytes == 2 * layer.frozen);

  SECTION("PEFT's adapters of single projections are one each") {
    s = lora_strategy(8, {kQ, kV});
    // 8 (8192 + 8192) + 8 (8192 + 1024).
    CHECK(costs_of(m, s)[kFirstLayerBlock].parameters.dense == 8 * 16'384 + 8 * 9'216);
  }
  SECTION("tensor parallelism splits all of them") {
    s = lora_strategy(16, {kQkv, kProj});
    s.tp = 4;
    s.sequence_parallel = true;
    CHECK(costs_of(m, s)[kFirstLayerBlock].parameters.dense ==
          4 * (8192 + 0) + 16 * 10240 / 4 + 16 * 8192 / 4 + 16 * 8192 / 4);
  }
}

TEST_CASE("[F-LORA-2] products of an adapter and none of its layer's weight gradients") {
  const ModelSpec m = llama_like(8);
  Strategy s = lora_strategy(8, {kFc2});
  s.lora.dropout = 0.1;
  const BlockOps ops = layer_ops(m, s);
  for (const KernelOp& op : ops.kernels) {
    if (op.pass == Pass::kBackwardWeight) CHECK(op.name.starts_with("adapter"));
  }
  // 2,048 tokens, 16,384 features in, 4,096 out.
  const double in = 2.0 * 2048 * 8 * 16384, out = 2.0 * 2048 * 8 * 4096;
  for (const Pass pass : {Pass::kForward, Pass::kBackwardInput, Pass::kBackwardWeight}) {
    CHECK(flops_of(ops, "adapter in", pass) == in);
    CHECK(flops_of(ops, "adapter out", pass) == out);
  }
  CHECK(bytes_of(ops, "adapter dropout", Pass::kForward) == 5.0 * 2048 * 16384);
  CHECK(bytes_of(ops, "adapter scale", Pass::kForward) == 4.0 * 2048 * 4096);
  CHECK(bytes_of(ops, "adapter sum", Pass::kForward) == 6.0 * 2048 * 4096);
  CHECK(bytes_of(ops, "adapter sum", Pass::kBackwardInput) == 6.0 * 2048 * 16384);
  // Where the second product scales its output nothing else does.
  Strategy joined = s;
  joined.runtime.fused_lora = true;
  const BlockOps fewer = layer_ops(m, joined);
  CHECK(bytes_of(fewer, "adapter scale", Pass::kForward) == 0);
  CHECK(fewer.kernels.size() == ops.kernels.size() - 2);
  CHECK(bytes_of(fewer, "adapter sum", Pass::kForward) == 6.0 * 2048 * 4096);
  // The layer's own products are those of training all weights.
  Strategy whole = s;
  whole.lora = {};
  const BlockOps all = layer_ops(m, whole);
  for (const Pass pass : {Pass::kForward, Pass::kBackwardInput}) {
    CHECK(flops_of(ops, "mlp down", pass) == flops_of(all, "mlp down", pass));
  }
}

TEST_CASE("[F-LORA-2] the output of a row-parallel layer's adapter is gathered or exchanged") {
  const ModelSpec m = llama_like(8);
  Strategy s = lora_strategy(8, {kProj});
  s.tp = 4;
  s.sequence_parallel = true;
  const auto bytes = [&](Collective op) {
    double sum = 0;
    for (const CommOp& comm : layer_ops(m, s).comm) {
      if (comm.operation == op && comm.pass == Pass::kForward) sum += comm.bytes.si();
    }
    return sum;
  };
  const double whole = 2.0 * 2048 * 4096;
  CHECK(bytes(Collective::kAllGather) == 3 * whole);  // two of the layer's own
  CHECK(bytes(Collective::kAllToAll) == 0);
  s.lora.all_to_all = true;
  CHECK(bytes(Collective::kAllGather) == 2 * whole);
  CHECK(bytes(Collective::kAllToAll) == whole / 4);
}

TEST_CASE("[F-LORA-3] a frozen layer keeps no input but its adapter's") {
  const ModelSpec m = llama_like(8);
  const auto saved = [&](const Strategy& s) {
    return costs_of(m, s)[kFirstLayerBlock].saved.none.si();
  };
  const double t = 2048, h = 4096, f = 16384;
  Strategy whole = lora_strategy(8, {kQkv});
  whole.lora = {};
  const double all = saved(whole);
  // Inputs of the projection of queries, of the MLP's first layer and of its second.
  CHECK(saved(lora_strategy(8, {kProj})) == all - 2 * t * (h + h + f));
  CHECK(saved(lora_strategy(8, {kQkv})) == all - 2 * t * (h + f));
  CHECK(saved(lora_strategy(8, {kFc1, kFc2})) == all - 2 * t * h);
  // With dropout a copy and a mask beside attention's own output.
  Strategy dropout = lora_strategy(8, {kProj});
  dropout.lora.dropout = 0.1;
  CHECK(saved(dropout) == all - 2 * t * (h + h + f) + 3 * t * h);
  // Recomputed as a whole, the layer's input is all that is kept, as ever.
  CHECK(costs_of(m, dropout)[kFirstLayerBlock].saved.full ==
        costs_of(m, whole)[kFirstLayerBlock].saved.full);
}

TEST_CASE("[F-LORA-3] an adapter keeps its share of the sequence and gathers it again") {
  const ModelSpec m = llama_like(8);
  Strategy s = lora_strategy(8, {kQkv, kFc1, kFc2});
  s.tp = 4;
  s.sequence_parallel = true;
  s.overlap.tp = false;
  Strategy again = s;
  again.lora.input_regather = true;
  const double whole = 2.0 * 2048 * 4096;
  const auto saved = [&](const Strategy& strategy) {
    return costs_of(m, strategy)[kFirstLayerBlock].saved.none.si();
  };
  const auto gathered = [&](const Strategy& strategy, Pass pass) {
    double sum = 0;
    for (const CommOp& comm : layer_ops(m, strategy).comm) {
      if (comm.operation == Collective::kAllGather && comm.pass == pass) sum += comm.bytes.si();
    }
    return sum;
  };
  // Two layers' inputs, three of four parts of the sequence less of each.
  CHECK(saved(again) == saved(s) - 2 * 0.75 * whole);
  for (const Pass pass : {Pass::kForward, Pass::kBackwardInput}) {
    CHECK(gathered(again, pass) == gathered(s, pass) + 2 * whole);
  }
  SECTION("user buffers hand no gathered input to an adapter, which gathers its own") {
    Strategy pieces = s;
    pieces.overlap.tp = true;
    CHECK(gathered(pieces, Pass::kForward) == gathered(s, Pass::kForward) + 2 * whole);
    CHECK(saved(pieces) == saved(s));
  }
  SECTION("not of an MLP that is made again") {
    again.recompute = Recompute::kSelective;
    again.recompute_modules = {RecomputeModule::kMlp};
    CHECK(regathers_input(again, kQkv));
    CHECK_FALSE(regathers_input(again, kFc1));
  }
  SECTION("not of an adapter's second matrix, nor beside what takes its path") {
    CHECK_FALSE(regathers_input(again, kFc2));
    again.lora.all_to_all = false;
    again.runtime.cuda_graph = CudaGraph::kLayer;
    CHECK_FALSE(regathers_input(again, kQkv));
    again.runtime.cuda_graph = CudaGraph::kNone;
    again.lora.all_to_all = true;
    CHECK_FALSE(regathers_input(again, kQkv));
    again.lora.all_to_all = false;
    again.sequence_parallel = false;
    CHECK_FALSE(regathers_input(again, kQkv));
  }
}

TEST_CASE("[F-LORA-4] weights of few bits are made 16-bit ones in each pass") {
  const ModelSpec m = llama_like(8);
  Strategy s = lora_strategy(8, {kQkv});
  s.lora.frozen_dtype = FrozenDtype::kNf4;
  const BlockOps ops = layer_ops(m, s);
  const double weights = 4 * 4096.0 * 4096 + 3 * 4096.0 * 16384;
  const double each = 0.5 + 1.0 / 64 + 4.0 / 16384 + 2;
  for (const Pass pass : {Pass::kForward, Pass::kBackwardInput}) {
    CHECK(bytes_of(ops, "dequantisation", pass) == Approx(weights * each));
  }
  // The largest, 32,768 x 4,096, as a buffer.
  Strategy plain = s;
  plain.lora.frozen_dtype = FrozenDtype::kTraining;
  const BlockCost few = costs_of(m, s)[kFirstLayerBlock];
  const BlockCost many = costs_of(m, plain)[kFirstLayerBlock];
  CHECK((few.working_set - many.working_set).si() == 2.0 * 32768 * 4096);
  CHECK(few.parameters.frozen == many.parameters.frozen);
  CHECK(static_cast<double>(few.parameters.frozen_bytes) ==
        Approx(0.5159 * weights + 2.0 * 2 * 4096).epsilon(0.001));
}

TEST_CASE("[F-FLOP-1] frozen weights have no gradients: four operations per parameter and token") {
  const ModelSpec m = shipped("llama-2-70b");
  const double tokens = 8192;
  const double whole = model_flops(m, 8192, tokens).si();
  const double frozen =
      model_flops(m, 8192, tokens, AttentionCount::kFull, {.language_model = false}).si();
  const double scores = 4.0 * 80 * 8192 * 64 * 128;  // forward, per token
  CHECK(whole - frozen == Approx((whole / tokens - 3 * scores) / 3 * tokens));
}

TEST_CASE("memory of adapters, and of gradients and states of nothing else") {
  const ModelSpec m = shipped("llama-2-70b");
  ClusterSpec c = plain_cluster(8);
  c.device.memory = Bytes{200 * kGiB};
  Strategy s = lora_strategy(16, {kQkv, kProj});
  s.tp = 8;
  s.sequence_parallel = true;
  const PlanCost plan = cost_of(m, c, complete(s, m, c));
  const StageCost& stage = plan.stages.front();
  // 68,976,648,192 parameters; norms are on every rank.
  CHECK(stage.memory.weights.si() == Approx(2 * 68.9766e9 / 8).epsilon(0.01));
  CHECK(stage.trained_parameters == 44'564'480 / 8);
  CHECK(stage.memory.gradients.si() == 4.0 * 44'564'480 / 8);
  CHECK(stage.memory.optimizer.si() == 12.0 * 44'564'480 / 8);
}

TEST_CASE("what adapters cannot be") {
  const ModelSpec m = shipped("llama-2-70b");
  const ClusterSpec c = plain_cluster(8);
  const auto errors = [&](const Strategy& s) {
    std::string text;
    for (const Diagnostic& d : validate(with_derived_dp(s, 8), m, c)) {
      if (d.severity == Severity::kError) text += d.message + "\n";
    }
    return text;
  };
  Strategy s = lora_strategy(16, {kQkv, kProj});
  s.dp = 0;
  CHECK(errors(s).empty());
  s.lora.targets = {};
  CHECK(errors(s) == "'lora.targets' is empty: nothing would be trained\n");
  s.lora.targets = {kIn};
  CHECK(errors(s) == "the model has none of the layers in_proj: nothing would be trained\n");
  s.lora.targets = {kQkv, kIn};
  CHECK(errors(s) == "the model has no layer 'in_proj'\n");
  s.lora.targets = lora_targets("all-linear");
  CHECK(errors(s).empty());
  s.lora.rank = 10'000;
  CHECK(errors(s) ==
        "'lora.rank' 10000 is more than the model's hidden size 8192: no adapter of low rank\n");
  s.lora.rank = 6;
  s.tp = 4;
  CHECK(errors(s) == "'tp' must divide the 6 columns of an adapter, got 4\n");
  s.lora.rank = 0;
  s.lora.frozen_dtype = FrozenDtype::kNf4;
  CHECK(errors(s) ==
        "'lora.frozen_dtype' is of weights beside which adapters are trained, but 'lora.rank' is "
        "0\n");
}

TEST_CASE("[F-LORA-5] what surrounds quantised weights is fp32 where PEFT has cast it") {
  const ModelSpec m = shipped("llama-3.1-8b");
  Strategy plain = with_preset(lora_strategy(32, lora_targets("all-linear")), Framework::kFsdp);
  plain.zero = 0, plain.recompute = Recompute::kFull;
  plain.lora.frozen_dtype = FrozenDtype::kNf4;
  Strategy cast = plain;
  cast.runtime.fp32_unquantised = true;
  const BlockCosts before = costs_of(m, plain), after = costs_of(m, cast);
  // 128,256 words of 4,096: 4 bytes in place of 2, of the embedding and of the output layer.
  const std::int64_t table = 128'256 * 4096;
  CHECK(before.embedding().parameters.frozen_bytes == 2 * table);
  CHECK(after.embedding().parameters.frozen_bytes == 4 * table);
  CHECK(after.head().parameters.frozen_bytes - before.head().parameters.frozen_bytes ==
        2 * (table + 4096));
  // Layers keep their fp32 inputs; their own weights stay quantised.
  CHECK(after[kFirstLayerBlock].saved.full == before[kFirstLayerBlock].saved.full * 2);
  CHECK(after[kFirstLayerBlock].parameters == before[kFirstLayerBlock].parameters);
  // Beside the loss the weight that autocast has cast to 16 bits, and 2 more bytes of the gradient
  // of the hidden states.
  const std::int64_t tokens = plain.seq_len * plain.micro_batch;
  CHECK(after.head().working_set - before.head().working_set ==
        Bytes{2 * table + 2 * tokens * 4096});
  CHECK(after.head().forward.total() > before.head().forward.total());
  // Where nothing is quantised it does nothing, and is said to.
  cast.lora.frozen_dtype = FrozenDtype::kTraining;
  plain.lora.frozen_dtype = FrozenDtype::kTraining;
  CHECK(costs_of(m, cast).head().working_set == costs_of(m, plain).head().working_set);
  const Diagnostics said = validate(complete(cast, m, plain_cluster(1)), m, plain_cluster(1));
  CHECK(std::any_of(said.begin(), said.end(), [](const Diagnostic& d) {
    return d.message.find("'runtime.fp32_unquantised' does nothing") != std::string::npos;
  }));
}
