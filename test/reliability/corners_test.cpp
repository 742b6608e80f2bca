// The corners of what is accepted: no sum overflows, no time or size is negative, infinite or NaN.
#include <algorithm>
#include <array>

#include "frameworks/preset.hpp"
#include "fuzz/choices.hpp"
#include "fuzz/invariants.hpp"
#include "io/load.hpp"
#include "model/rules.hpp"
#include "spec/device.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using fuzz::Case;

namespace {

const DataFolders& shipped() {
  static const DataFolders folders({MESHPLAN_SOURCE_DIR});
  return folders;
}

ModelSpec tiny() {
  ModelSpec m;
  m.name = "tiny";
  m.num_layers = 2;
  m.hidden_size = 64;
  m.num_attention_heads = 4;
  m.num_query_groups = 4;
  m.attention = AttentionKind::kMha;
  m.head_dim = 16;
  m.ffn_hidden_size = 256;
  m.vocab_size = 1000;
  m.max_seq_length = 128;
  return m;
}

Case case_of(ModelSpec m, std::int64_t gpus, std::int64_t batch, std::int64_t seq_len) {
  Case c;
  c.model = std::move(m);
  c.cluster = with_gpus(*load_cluster("dgx-h100", shipped()), gpus);
  c.strategy = framework_preset(Framework::kMegatron);
  c.strategy.dp = gpus;
  c.strategy.global_batch = batch;
  c.strategy.seq_len = seq_len;
  return c;
}

// Sizes at the ends of their ranges, one at a time and all that the number of parameters allows.
std::vector<ModelSpec> extreme_models() {
  std::vector<ModelSpec> all{tiny()};
  const auto add = [&](auto change) {
    ModelSpec m = tiny();
    change(m);
    INFO(to_text(validate(m)));
    REQUIRE_FALSE(has_errors(validate(m)));
    all.push_back(m);
  };
  add([](ModelSpec& m) { m.num_layers = 100'000; });
  add([](ModelSpec& m) { m.num_layers = 1, m.hidden_size = 1, m.ffn_hidden_size = 1; });
  add([](ModelSpec& m) { m.hidden_size = 1 << 22; });
  add([](ModelSpec& m) { m.ffn_hidden_size = 1 << 22, m.gated_mlp = true; });
  add([](ModelSpec& m) { m.hidden_size = m.ffn_hidden_size = 1 << 22, m.num_layers = 100; });
  add([](ModelSpec& m) { m.vocab_size = 1 << 26, m.hidden_size = 1 << 22; });
  add([](ModelSpec& m) {
    m.num_attention_heads = m.num_query_groups = 1 << 16, m.head_dim = 1 << 16;
  });
  add([](ModelSpec& m) {
    m.max_seq_length = 1 << 30, m.position_embedding = PositionEmbedding::kLearned;
  });
  add([](ModelSpec& m) { m.mtp_layers = 100; });
  add([](ModelSpec& m) { m.window = 1 << 30, m.window_every = 100'000; });
  for (const std::int64_t experts : {1, 1 << 16}) {
    add([&](ModelSpec& m) {
      MoeSpec moe;
      moe.num_experts = experts;
      moe.top_k = experts;
      moe.expert_ffn_hidden_size = 1 << 22;
      moe.shared_expert_ffn_hidden_size = 1 << 22;
      moe.imbalance = static_cast<double>(1);
      m.moe = moe;
    });
  }
  const auto add_mixer = [&](const Mixer& mixer) {
    add([&](ModelSpec& m) { m.layers = {{m.num_layers, {mixer, NoneSpec{}}}}; });
  };
  add_mixer(Mamba2Spec{1 << 16, 1 << 8, 1 << 8, 1 << 16, 64, 1});
  add_mixer(Mamba2Spec{1, 1 << 16, 1 << 16, 1, 1, 1 << 16});
  add_mixer(MambaSpec{1 << 22, 1 << 16, 1 << 20, 64, true});
  add_mixer(GatedDeltaNetSpec{1 << 12, 1 << 12, 1 << 10, 1 << 10, 64, 1 << 20});
  add_mixer(GatedDeltaNetSpec{1, 1 << 16, 1, 1 << 10, 1, 0});
  add_mixer(LightningSpec{1 << 16, 1 << 10});
  for (const std::int64_t heads : {0, 1 << 16}) {
    AttentionSpec sparse{8, 8, 64, 0};
    sparse.index = {heads, 1 << 16, 1 << 30};
    sparse.v_head_dim = 1 << 16;
    sparse.output_gate = true;
    add_mixer(sparse);
  }
  add([](ModelSpec& m) {
    EncoderSpec e;
    e.num_layers = 10'000;
    e.hidden_size = e.num_attention_heads = 1 << 10;
    e.ffn_hidden_size = 1 << 12;
    e.patch_size = e.channels = 1024;
    e.patches_per_image = e.positions = 1 << 20;
    e.merged_patches = 1024;
    e.projector_hidden_size = 1 << 20;
    e.projectors = 64;
    e.images_per_sequence = 4096;
    m.encoder = e;
  });
  add([](ModelSpec& m) {
    m.attention = AttentionKind::kMla;
    m.num_attention_heads = m.num_query_groups = 1 << 16;
    m.mla = MlaSpec{1 << 18, 1 << 18, 1 << 15, 1 << 15, 1 << 16};
    m.head_dim = 1 << 16;
  });
  return all;
}

}  // namespace

TEST_CASE("estimates at the corners of the accepted models, batches and clusters are sound",
          "[long]") {
  const auto models = extreme_models();
  REQUIRE(models.size() >= 10);
  int estimated = 0;
  for (std::size_t i = 0; i < models.size(); ++i) {
    // The ends of each range, and one case between them.
    std::vector<std::array<std::int64_t, 3>> sizes{{8, 1024, 4096}};
    for (const std::int64_t gpus : {std::int64_t{1}, std::int64_t{1} << 24}) {
      for (const std::int64_t batch : {gpus, std::int64_t{1'000'000'000}}) {
        for (const std::int64_t seq_len : {1, 1 << 30}) sizes.push_back({gpus, batch, seq_len});
      }
    }
    for (const auto& [gpus, batch, seq_len] : sizes) {
      CAPTURE(i, gpus, batch, seq_len);
      const Case c = case_of(models[i], gpus, batch, seq_len);
      // Aborts, with what does not hold, where an invariant is broken.
      const fuzz::Documents documents = check_estimate(c);
      CHECK_FALSE(documents.estimate.empty());
      ++estimated;
    }
  }
  CHECK(estimated > 200);
}

TEST_CASE("estimates of the deepest and fullest pipelines are sound") {
  struct Corner {
    Schedule schedule;
    std::int64_t pp, vp, microbatches;
  };
  const Corner corner = GENERATE(values<Corner>({
      {Schedule::kGpipe, 8, 1, 1 << 14},
      {Schedule::kGpipe, 2048, 1, 16},
      {Schedule::k1f1b, 2048, 1, 64},
      {Schedule::k1f1b, 2, 1, 1 << 17},
      {Schedule::kInterleaved, 16, 128, 128},
      {Schedule::kInterleaved, 256, 2, 1024},
      {Schedule::kZbH1, 256, 1, 1024},
      {Schedule::kZbV, 128, 2, 1024},
      {Schedule::kDualPipe, 128, 2, 1024},
  }));
  constexpr std::int64_t kMicroBatch = 400;
  for (const std::int64_t seq_len : {65536, 1 << 30}) {
    CAPTURE(corner.schedule, seq_len);
    ModelSpec m = tiny();
    m.num_layers = 2048;
    Case c = case_of(m, corner.pp, corner.microbatches * kMicroBatch, seq_len);
    c.strategy.dp = 1, c.strategy.pp = corner.pp, c.strategy.vp = corner.vp;
    c.strategy.schedule = corner.schedule, c.strategy.micro_batch = kMicroBatch;
    CHECK_FALSE(check_estimate(c).estimate.empty());
  }
}

TEST_CASE("devices and links at the corners of what is accepted give sound estimates") {
  struct Corner {
    const char* name;
    void (*change)(ClusterSpec&);
  };
  const Corner corner = GENERATE(values<Corner>({
      {"no overhead",
       [](ClusterSpec& c) {
         c.device.kernel_overhead = c.device.launch_gap = c.device.collective_gap = Seconds{};
       }},
      {"slow launches",
       [](ClusterSpec& c) { c.device.launch_gap = c.device.kernel_overhead = Seconds{1}; }},
      {"least memory",
       [](ClusterSpec& c) { c.device.memory = Bytes{1}, c.device.context = Bytes{}; }},
      {"most memory", [](ClusterSpec& c) { c.device.memory = Bytes{std::int64_t{1} << 50}; }},
      {"slow memory", [](ClusterSpec& c) { c.device.memory_bandwidth = BytesPerSecond{1e-12}; }},
      {"fast memory", [](ClusterSpec& c) { c.device.memory_bandwidth = BytesPerSecond{1e18}; }},
      {"slow products",
       [](ClusterSpec& c) {
         c.device.peak.fill(FlopsPerSecond{1}), c.device.gemm.sustained.fill(1e-6);
       }},
      {"fast products",
       [](ClusterSpec& c) {
         c.device.peak.fill(FlopsPerSecond{1e21}), c.device.gemm.sustained.fill(1);
       }},
      {"no half sizes",
       [](ClusterSpec& c) { c.device.gemm.k_half = c.device.attention.seq_half = 0; }},
      {"one multiprocessor", [](ClusterSpec& c) { c.device.multiprocessors = 1; }},
      {"no cache", [](ClusterSpec& c) { c.device.l2_cache = Bytes{}; }},
      {"no host link", [](ClusterSpec& c) { c.device.host_link = BytesPerSecond{}; }},
      {"slow links",
       [](ClusterSpec& c) {
         for (LinkLevel& l : c.levels) l.bandwidth = BytesPerSecond{1}, l.latency = Seconds{1};
       }},
      {"fast links",
       [](ClusterSpec& c) {
         for (LinkLevel& l : c.levels) l.bandwidth = BytesPerSecond{1e15}, l.latency = Seconds{};
       }},
      {"free", [](ClusterSpec& c) { c.usd_per_gpu_hour = 0; }},
  }));
  CAPTURE(corner.name);
  for (const bool offloaded : {false, true}) {
    Case c = case_of(tiny(), 16, 64, 128);
    corner.change(c.cluster);
    c.strategy.tp = 2, c.strategy.pp = 2, c.strategy.dp = 4;
    c.strategy.offload.optimizer = offloaded;
    if (has_errors(validate(c.cluster))) continue;  // refused, which is sound too
    static_cast<void>(check_estimate(c));
  }
}

TEST_CASE("a search at the corners of small sizes is sound") {
  for (const ModelSpec& m : extreme_models()) {
    if (m.num_layers > 100) continue;
    Case c = case_of(m, 4, 4, 128);
    const std::vector<std::uint8_t> none;
    fuzz::Choices choices(none.data(), none.size());
    static_cast<void>(check_search(choices, c));
  }
  SUCCEED();
}

TEST_CASE("a device without a precision computes in the one that it falls back to") {
  // A mixture of experts scores in bf16; V100 has none, and its estimate once was 1e303 s.
  Case c = case_of(tiny(), 8, 8, 128);
  c.cluster = with_gpus(*load_cluster("dgx-v100", shipped()), 8);
  MoeSpec moe;
  moe.num_experts = 8;
  moe.top_k = 2;
  moe.expert_ffn_hidden_size = 128;
  c.model.moe = moe;
  for (const Precision p : {Precision::kFp16, Precision::kFp32, Precision::kTf32}) {
    c.strategy.precision = p;
    const Verdict verdict = evaluate(c.model, c.cluster, c.strategy);
    REQUIRE(verdict.feasible());
    CHECK(verdict.cost().step_time < Seconds{1});
  }
}
