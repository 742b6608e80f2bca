#include "fuzz/choices.hpp"

#include <algorithm>
#include <numeric>

#include "frameworks/preset.hpp"
#include "io/load.hpp"
#include "model/rules.hpp"
#include "schedule/traits.hpp"
#include "space/target.hpp"
#include "spec/expert_load.hpp"

namespace meshplan::fuzz {
namespace {

constexpr std::size_t kBytesOfSeed = 512;
constexpr std::int64_t kStateHeads = 8;  // divides the heads and groups of layers with a state

void add_latent_attention(Choices& choices, ModelSpec& m) {
  m.attention = AttentionKind::kMla;
  m.mla = MlaSpec{choices.one_of<std::int64_t>({0, 384, 1536}), choices.between(1, 512),
                  choices.between(1, 128), choices.between(0, 64), choices.between(1, 128)};
  m.head_dim = m.mla->qk_nope_head_dim + m.mla->qk_rope_head_dim;
  m.num_query_groups = m.num_attention_heads;
}

void add_experts(Choices& choices, ModelSpec& m) {
  MoeSpec moe;
  moe.num_experts = choices.one_of<std::int64_t>({2, 3, 8, 16, 64, 256});
  moe.top_k = choices.between(1, std::min<std::int64_t>(moe.num_experts, 8));
  moe.expert_ffn_hidden_size = choices.one_of<std::int64_t>({1, 256, 1408, 14336});
  moe.shared_expert_ffn_hidden_size = choices.one_of<std::int64_t>({0, 256, 2048});
  moe.first_dense = choices.between(0, std::min<std::int64_t>(m.num_layers - 1, 3));
  moe.every = choices.one_of<std::int64_t>({1, 1, 2});
  moe.imbalance = choices.one_of({1.0, 1.25, 2.0});
  moe.router_bias = choices.once_in(3);
  if (choices.once_in(6)) moe.load_zipf = choices.one_of({0.0, 0.5, 1.2});
  m.moe = moe;
}

// Runs of layers of any kinds, some of them a mixer or a feed-forward alone.
void add_layers(Choices& choices, ModelSpec& m) {
  if (m.moe) m.moe->first_dense = 0, m.moe->every = 1;
  const LayerSpec flat = layer_spec(m, LayerKind::kDense, m.window > 0);
  m.window = 0, m.window_every = 1;
  const auto heads = choices.one_of<std::int64_t>({8, 16, 64});
  const Mixer mixers[] = {
      flat.mixer,
      NoneSpec{},
      Mamba2Spec{heads, 64, choices.one_of<std::int64_t>({16, 128}), kStateHeads},
      MambaSpec{64 * heads, 16, 16},
      GatedDeltaNetSpec{kStateHeads, heads, 64, 128, 4, choices.one_of<std::int64_t>({0, 64})},
      LightningSpec{heads, 64}};
  std::int64_t left = m.num_layers;
  while (left > 0) {
    LayerRun run;
    run.count = choices.between(1, left);
    run.layer.mixer = mixers[choices.between(0, 5)];
    const bool last_with_experts = m.moe && left == run.count;
    if (last_with_experts || (m.moe && choices.once_in(3))) {
      run.layer.feed_forward = *m.moe;
    } else if (has_mixer(run.layer) && choices.once_in(3)) {
      run.layer.feed_forward = NoneSpec{};
    } else {
      run.layer.feed_forward = flat.feed_forward;
    }
    left -= run.count;
    m.layers.push_back(run);
  }
}

ModelSpec make_model(Choices& choices, Size size) {
  const bool small = size == Size::kSmall;
  ModelSpec m;
  m.name = "fuzz";
  m.num_layers = small ? choices.between(1, 8) : choices.between(1, 160);
  m.num_attention_heads = choices.one_of<std::int64_t>({1, 2, 6, 8, 32, 64, 96, 128});
  m.head_dim = choices.one_of<std::int64_t>({64, 128, 80, 96, 1, 192});
  m.hidden_size =
      choices.once_in(8) ? choices.between(1, 16384) : m.num_attention_heads * m.head_dim;
  m.num_query_groups = choices.divisor(m.num_attention_heads);
  m.attention =
      m.num_query_groups == m.num_attention_heads ? AttentionKind::kMha : AttentionKind::kGqa;
  m.ffn_hidden_size = choices.once_in(8) ? choices.between(1, 65536) : 4 * m.hidden_size;
  m.gated_mlp = choices.once_in(2);
  m.activation = choices.name<Activation>();
  m.norm = choices.name<Norm>();
  m.position_embedding = choices.name<PositionEmbedding>();
  m.vocab_size = choices.one_of<std::int64_t>({32'000, 128'256, 50'257, 1});
  m.max_seq_length = choices.one_of<std::int64_t>({4096, 131'072, 1});
  for (bool* flag : {&m.tied_embeddings, &m.linear_bias, &m.qkv_bias, &m.attention_out_bias,
                     &m.qk_norm, &m.attention_sinks, &m.parallel_block, &m.embedding_norm}) {
    *flag = choices.once_in(4);
  }
  m.parallel_shared_norm = m.parallel_block && choices.once_in(2);
  m.dropout = choices.one_of({0.0, 0.1, 0.99});
  if (choices.once_in(4))
    m.window = choices.between(1, 8192), m.window_every = choices.between(1, 3);
  if (choices.once_in(4)) add_latent_attention(choices, m);
  if (choices.once_in(2)) add_experts(choices, m);
  if (choices.once_in(6)) m.mtp_layers = choices.between(1, 2);
  if (choices.once_in(3)) add_layers(choices, m);
  return m;
}

ClusterSpec make_cluster(Choices& choices, Size size) {
  static const DataFolders shipped({MESHPLAN_SOURCE_DIR});
  static const std::vector<std::string> names = shipped.names(kClusterFolder);
  const auto which = choices.between(0, static_cast<std::int64_t>(names.size()) - 1);
  ClusterSpec c = *load_cluster(names[static_cast<std::size_t>(which)], shipped);
  const std::int64_t nodes =
      size == Size::kSmall ? choices.between(1, 4) : choices.between(1, 2048);
  c = with_gpus(c,
                choices.once_in(4) ? choices.between(1, c.gpus_per_node) : nodes * c.gpus_per_node);
  if (choices.once_in(3)) c.device.memory = Bytes{choices.between(1, 2000) * kGiB};
  if (choices.once_in(3)) c.host_memory = Bytes{choices.between(1, 4000) * kGiB};
  if (choices.once_in(3)) c.usd_per_gpu_hour = choices.one_of({0.0, 2.5});
  return c;
}

// A degree that divides all of `sizes`, at most `left` and a divisor of it.
std::int64_t take_degree(Choices& choices, std::int64_t& left,
                         std::initializer_list<std::int64_t> sizes) {
  std::int64_t common = left;
  for (const std::int64_t size : sizes) common = std::gcd(common, size);
  const std::int64_t degree = choices.divisor(common);
  left /= degree;
  return degree;
}

void choose_degrees(Choices& choices, const ModelSpec& m, const ClusterSpec& c, Strategy& s) {
  std::int64_t left = num_gpus(c);
  const std::int64_t shared = m.moe ? m.moe->shared_expert_ffn_hidden_size : 0;
  s.tp = take_degree(choices, left,
                     {m.num_attention_heads, m.num_query_groups, m.ffn_hidden_size, shared,
                      m.layers.empty() ? 0 : kStateHeads});
  s.pp = choices.once_in(2) ? take_degree(choices, left, {m.num_layers}) : 1;
  s.cp = choices.once_in(4)
             ? take_degree(choices, left, {m.layers.empty() ? 16 : kStateHeads / s.tp})
             : 1;
  s.dp = left;
  s.sequence_parallel = s.tp > 1 && (m.moe || choices.once_in(2));
  if (!m.moe) return;
  s.etp =
      choices.once_in(2) && !m.expert_bias && m.moe->expert_ffn_hidden_size % s.tp == 0 ? s.tp : 1;
  std::int64_t ranks = s.tp * s.cp * s.dp / s.etp;
  s.ep = take_degree(choices, ranks, {m.moe->num_experts});
}

void choose_schedule(Choices& choices, const ModelSpec& m, Strategy& s) {
  const std::int64_t layers = m.num_layers / s.pp;
  const bool halves = s.pp > 1 && layers % 2 == 0;
  s.schedule = s.pp > 1
                   ? choices.one_of({Schedule::k1f1b, Schedule::kGpipe, Schedule::kZbH1,
                                     Schedule::kInterleaved, Schedule::kZbV, Schedule::kDualPipe})
                   : Schedule::k1f1b;
  if (s.schedule == Schedule::kInterleaved) s.vp = choices.divisor(layers);
  if (traits_of(s.schedule).chunks == ChunksPerRank::kTwo) s.vp = 2;
  if ((s.vp == 2 && !halves) || (s.schedule == Schedule::kInterleaved && s.vp < 2)) {
    s.schedule = Schedule::k1f1b, s.vp = 1;
  }
}

void choose_precision(Choices& choices, const DeviceSpec& d, Strategy& s) {
  s.precision = choices.once_in(2) ? choices.name<Precision>() : Precision::kBf16;
  const auto is_known = [&](Precision p) { return d.peak[static_cast<std::size_t>(p)].si() > 0; };
  if (!is_known(s.precision)) s.precision = Precision::kFp16;
  s.master_weights = !choices.once_in(4);
  s.grad_dtype = choices.one_of({Dtype::kFp32, Dtype::kBf16});
  s.flash_attention = !choices.once_in(4);
}

void choose_features(Choices& choices, const ModelSpec& m, Strategy& s) {
  s.recompute = choices.name<Recompute>();
  if (s.recompute == Recompute::kSelective && choices.once_in(2)) {
    for (const auto& row : NameTable<RecomputeModule>::rows) {
      if (choices.once_in(3)) s.recompute_modules.add(row.value);
    }
  }
  if (is_quantised(s.precision) && choices.once_in(3)) {
    s.runtime.num_layers_at_start_in_bf16 = choices.one_of({0, 1, 2});
    s.runtime.num_layers_at_end_in_bf16 = choices.one_of({0, 1});
  }
  s.overlap.grad_reduce = choices.once_in(2);
  s.overlap.param_gather = s.overlap.grad_reduce && choices.once_in(2);
  s.overlap.tp = choices.once_in(3);
  s.overlap.tp_backward = choices.once_in(2);
  s.overlap.pp = choices.once_in(3);
  s.overlap.ep = s.ep > 1 && s.pp == 1 && s.recompute != Recompute::kFull && choices.once_in(2);
  s.overlap.delay_wgrad_compute = s.overlap.ep && choices.once_in(2);
  s.runtime.single_device_connection = s.overlap.ep && choices.once_in(3);
  s.offload.optimizer = choices.once_in(6);
  if (s.offload.optimizer && choices.once_in(2)) s.offload.optimizer_fraction = 0.5;
  if (s.offload.optimizer && choices.once_in(3)) s.offload.master_weights = false;
  if (s.offload.optimizer && choices.once_in(3)) s.offload.overlap_copies = true;
  s.offload.activations = s.pp == 1 && s.recompute == Recompute::kNone && choices.once_in(4);
  if (s.offload.activations && choices.once_in(2)) s.offload.activation_layers = 1;
  if (!s.offload.activations && s.recompute != Recompute::kFull && choices.once_in(6)) {
    s.offload.modules = {OffloadModule::kCoreAttn, OffloadModule::kMlpNorm};
    s.offload.activation_fraction = choices.once_in(2) ? 0.5 : 1;
  }
  s.runtime.flex_dispatcher = m.moe && choices.once_in(3);
  if (choices.once_in(8)) s.runtime.cuda_graph = CudaGraph::kFullIteration;
  const bool sends = s.runtime.flex_dispatcher || s.overlap.ep;
  s.runtime.allgather_dispatcher = m.moe && !sends && choices.once_in(4);
  s.runtime.defer_embedding_wgrad_compute = s.pp > 1 && choices.once_in(6);
  if (choices.once_in(8)) {
    s.runtime.cuda_graph = CudaGraph::kLayer;
    s.runtime.cuda_graph_modules = {CudaGraphModule::kAttn};
    s.runtime.cuda_graph_warmup_steps = choices.once_in(2) ? 0 : 3;
  }
  s.runtime.deterministic_mode = s.runtime.deterministic_attention = choices.once_in(6);
  s.runtime.create_attention_mask_in_dataloader = choices.once_in(6);
  s.overlap.param_gather_with_optimizer_step = s.overlap.param_gather && choices.once_in(4);
}

// Mostly legal; the rules have the last word.
Strategy make_strategy(Choices& choices, const ModelSpec& m, const ClusterSpec& c) {
  Strategy s = framework_preset(
      choices.one_of<Framework>({Framework::kMegatron, Framework::kMegatron, Framework::kMegatron,
                                 Framework::kMegatronDeepspeed, Framework::kDeepspeed,
                                 Framework::kFsdp, Framework::kTorchtitan}));
  choose_degrees(choices, m, c, s);
  s.cp_kind = choices.once_in(3) ? choices.name<CpKind>() : CpKind::kRing;
  s.zero =
      s.pp > 1 ? static_cast<int>(choices.between(0, 1)) : static_cast<int>(choices.between(0, 3));
  s.zero_group = s.zero > 0 && choices.once_in(6) ? choices.divisor(s.dp * s.cp) : 0;
  choose_schedule(choices, m, s);
  s.micro_batch = choices.one_of<std::int64_t>({1, 2, 8});
  s.global_batch = s.dp * s.micro_batch * choices.one_of<std::int64_t>({1, 4, 8, 60}) *
                   (s.pp > 1 ? 2 * s.pp : 1);
  s.seq_len = choices.one_of<std::int64_t>({4096, 2048, 131'072}) * s.cp;
  choose_precision(choices, c.device, s);
  choose_features(choices, m, s);
  // Now and then something that a rule should refuse.
  if (choices.once_in(12)) s.zero = static_cast<int>(choices.between(0, 3));
  if (choices.once_in(12)) s.schedule = choices.name<Schedule>();
  if (choices.once_in(12)) s.vp = choices.between(1, 4);
  if (choices.once_in(12)) s.seq_len += choices.between(0, 3);
  return s;
}

// Other optimizers than Adam, and pairs of answers.
void choose_training(Choices& choices, Strategy& s) {
  if (choices.once_in(5)) s.optimizer = choices.name<Optimizer>();
  if (s.micro_batch % 2 == 0 && choices.once_in(6)) s.loss = Loss::kDpo;
}

// Documents of uneven length, some of them cut off.
void add_documents(Choices& choices, Case& out) {
  if (out.model.encoder || !choices.once_in(5)) return;
  out.strategy.packing = choices.name<Packing>();
  const double length = static_cast<double>(out.strategy.seq_len);
  out.model.lengths = LengthSpec{"fuzz", {{1, 3}, {length / 8, 5}, {length / 2, 2}, {length, 1}}};
  if (choices.once_in(3)) out.model.lengths->bins.push_back({2 * length, 0.5});
}

}  // namespace

std::int64_t Choices::divisor(std::int64_t n) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    all.push_back(d);
    if (d * d != n) all.push_back(n / d);
  }
  return all[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(all.size()) - 1))];
}

std::vector<std::uint8_t> bytes_of(std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<std::uint8_t> bytes(kBytesOfSeed);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(engine() >> 56U);
  return bytes;
}

bool make_case(Choices& choices, Size size, Case& out) {
  out.model = make_model(choices, size);
  if (has_errors(validate(out.model))) return false;
  if (out.model.moe) derive_loads(*out.model.moe);
  for (LayerRun& run : out.model.layers) {
    if (auto* moe = std::get_if<MoeSpec>(&run.layer.feed_forward)) *moe = *out.model.moe;
  }
  out.cluster = make_cluster(choices, size);
  if (has_errors(validate(out.cluster))) return false;
  out.strategy = make_strategy(choices, out.model, out.cluster);
  add_documents(choices, out);
  choose_training(choices, out.strategy);
  return true;
}

SearchRequest make_request(Choices& choices, const Case& c) {
  SearchRequest request;
  request.base = framework_preset(c.strategy.framework);
  request.base.global_batch = c.strategy.global_batch;
  request.base.seq_len = c.strategy.seq_len;
  request.base.packing = c.strategy.packing;
  request.base.optimizer = c.strategy.optimizer;
  request.base.loss = c.strategy.loss;
  request.base.precision = c.strategy.precision;
  request.space = choices.one_of({Space::kMegatron, Space::kFull, Space::kDeepspeed, Space::kFsdp,
                                  Space::kTorchtitan, Space::kAxolotl, Space::kTorchtune});
  request.base = as_configured(request.space, request.base, c.model, c.cluster);
  request.objective = choices.one_of({Objective::kStepTime, Objective::kMemory, Objective::kCost});
  request.top = 3;
  request.threads = static_cast<int>(choices.between(1, 2));
  request.ignore_activations = choices.once_in(8);
  return request;
}

}  // namespace meshplan::fuzz
