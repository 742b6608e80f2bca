#include "launch/megatron_import.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/text.hpp"
#include "frameworks/preset.hpp"
#include "frameworks/target.hpp"
#include "launch/megatron_hybrid.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

// What starts the processes, not the training program; underscores are torchrun's other spelling.
constexpr std::array kLauncher{"--nnodes",        "--nproc-per-node", "--node-rank",
                               "--master-addr",   "--master-port",    "--rdzv-backend",
                               "--rdzv-endpoint", "--rdzv-id",        "--standalone"};

class Importer {
 public:
  Importer(std::string_view text, const std::string& file) : file_(file) {
    run_.script = read_shell(text);
  }

  Result<MegatronRun> read() {
    collect();
    read_world();
    read_model();
    read_sizes();
    read_stages();
    read_sharding();
    read_memory();
    read_precision();
    if (!problems_.empty()) return problems_;
    for (const auto& [name, option] : run_.options) {
      if (!read_.contains(name)) run_.not_read.push_back(name);
      const ShellWord& at = option.name;
      run_.places[name] = {{file_, at.line, at.column, static_cast<int>(at.text.size())},
                           run_.script.shared_line_of(at)};
    }
    run_.strategy = with_world(run_, run_.world_size);
    return std::move(run_);
  }

 private:
  void collect() {
    MegatronOption* last = nullptr;
    for (const ShellWord& word : run_.script.words) {
      if (!word.text.starts_with("--")) {
        if (last != nullptr) last->values.push_back(word);
        continue;
      }
      const std::size_t equals = std::min(word.text.find('='), word.text.size());
      std::string name = word.text.substr(0, equals);
      std::string plain = name;
      std::replace(plain.begin(), plain.end(), '_', '-');
      const bool launcher = std::find(kLauncher.begin(), kLauncher.end(), plain) != kLauncher.end();
      last = &run_.options[launcher ? plain : name];
      *last = {word, {}};
      if (equals < word.text.size())
        last->values.push_back({word.text.substr(equals + 1), word.line, word.column});
    }
    for (const auto& [name, value] : run_.script.variables) run_.environment[name] = value;
  }

  const MegatronOption* find(const std::string& name) {
    read_.insert(name);
    const auto found = run_.options.find(name);
    return found == run_.options.end() ? nullptr : &found->second;
  }
  bool has(const std::string& name) { return find(name) != nullptr; }

  std::string text(const std::string& name, const std::string& otherwise = {}) {
    const MegatronOption* o = find(name);
    return o == nullptr || o->values.empty() ? otherwise : o->values.front().text;
  }

  void report(const ShellWord& at, const std::string& message, const std::string& hint = {}) {
    Diagnostic d =
        error_at({file_, at.line, at.column, static_cast<int>(at.text.size())}, message, hint);
    d.source_line = run_.script.line_of(at);
    problems_.push_back(std::move(d));
  }

  std::optional<std::int64_t> integer(const ShellWord& word) {
    std::int64_t value = 0;
    const char* end = word.text.data() + word.text.size();
    const auto [stop, failure] = std::from_chars(word.text.data(), end, value);
    if (failure == std::errc{} && stop == end) return value;
    return std::nullopt;
  }

  // Any count of layers, elements, words or tokens.
  static constexpr IntegerRange kCount{0, kTokens.highest};

  std::int64_t number(const std::string& name, std::int64_t otherwise,
                      IntegerRange range = kCount) {
    const MegatronOption* o = find(name);
    if (o == nullptr) return otherwise;
    if (o->values.empty()) {
      report(o->name, name + " has no value that can be read here",
             "a variable that the script sets elsewhere? write the number");
      return otherwise;
    }
    const std::optional<std::int64_t> value = integer(o->values.front());
    if (!value) {
      report(o->values.front(),
             name + " must be a whole number, got \"" + o->values.front().text + "\"");
      return otherwise;
    }
    const std::optional<std::string> wrong = out_of_range(name, *value, range);
    if (wrong) report(o->values.front(), *wrong);
    return wrong ? otherwise : *value;
  }

  std::int64_t needed(const std::string& name) {
    if (!has(name)) {
      problems_.push_back(error_at({file_}, name + " is missing",
                                   "an argument list or script of pretrain_gpt.py has it"));
    }
    return number(name, 1);
  }

  void read_world() {
    const std::int64_t per_node = number("--nproc-per-node", 0, kRanks);
    const std::int64_t nodes = number("--nnodes", 1, kRanks);
    run_.world_size = per_node * nodes;
    for (const char* name : kLauncher) read_.insert(name);
    if (run_.world_size > 0) {
      const auto wrong = out_of_range("--nnodes times --nproc-per-node", run_.world_size, kRanks);
      if (wrong) report(find("--nproc-per-node")->name, *wrong);
      return;
    }
    const auto stated = run_.environment.find("WORLD_SIZE");
    if (stated == run_.environment.end()) return;
    const std::optional<std::int64_t> world = integer(stated->second);
    if (!world) return;
    run_.world_size = *world;
    if (const auto wrong = out_of_range("WORLD_SIZE", *world, kRanks)) {
      report(stated->second, *wrong);
    }
  }

  void read_model() {
    ModelSpec& m = run_.model;
    m.name = "imported";
    m.source = "arguments of Megatron-LM";
    const std::int64_t hybrid = hybrid_layers(arguments());
    m.num_layers = hybrid > 0 ? number("--num-layers", hybrid) : needed("--num-layers");
    m.hidden_size = needed("--hidden-size");
    m.num_attention_heads = needed("--num-attention-heads");
    if (!problems_.empty()) return;
    m.head_dim =
        number("--kv-channels", m.hidden_size / std::max<std::int64_t>(m.num_attention_heads, 1));
    m.gated_mlp = has("--swiglu");
    m.activation = m.gated_mlp             ? Activation::kSilu
                   : has("--squared-relu") ? Activation::kRelu2
                                           : Activation::kGelu;
    // A:1326: two thirds of 4 h, in whole 64s, where the MLP is gated.
    const std::int64_t usual =
        m.gated_mlp ? 4 * m.hidden_size * 2 / 3 / 64 * 64 : 4 * m.hidden_size;
    m.ffn_hidden_size = number("--ffn-hidden-size", usual);
    m.norm = text("--normalization", "LayerNorm") == "RMSNorm" ? Norm::kRmsNorm : Norm::kLayerNorm;
    const std::string position = text("--position-embedding-type", "learned_absolute");
    const bool learned = position == "learned_absolute" && !has("--use-rotary-position-embeddings");
    m.position_embedding = learned              ? PositionEmbedding::kLearned
                           : position == "none" ? PositionEmbedding::kNone
                                                : PositionEmbedding::kRope;
    constexpr std::int64_t kUsualWords = 50257;  // of GPT-2's tokenizer
    m.vocab_size = number("--vocab-size", number("--padded-vocab-size", kUsualWords));
    if (!has("--vocab-size") && !has("--padded-vocab-size")) {
      run_.notes.emplace_back(
          "the vocabulary is the tokenizer's: 50,257 words are assumed (--vocab-size)");
    }
    m.tied_embeddings = !has("--untie-embeddings-and-output-weights");
    m.linear_bias = !has("--disable-bias-linear");
    m.qkv_bias = !m.linear_bias && has("--add-qkv-bias");
    m.dropout = real("--hidden-dropout", 0.1);
    m.mtp_layers = number("--mtp-num-layers", 0);
    read_attention();
    read_experts();
    const HybridProblem problem = read_hybrid(arguments(), m);
    if (!problem.option.empty()) report(find(problem.option)->name, problem.message);
    for (const char* name : {"--transformer-impl", "--make-vocab-size-divisible-by",
                             "--attention-dropout", "--rope-type", "--tokenizer-type"}) {
      read_.insert(name);
    }
  }

  ArgumentReader arguments() {
    return {[this](const std::string& name) { return has(name); },
            [this](const std::string& name) { return text(name); },
            [this](const std::string& name, std::int64_t otherwise) {
              return number(name, otherwise);
            }};
  }

  double real(const std::string& name, double otherwise) {
    const std::string value = text(name);
    if (value.empty()) return otherwise;
    double result = otherwise;
    std::from_chars(value.data(), value.data() + value.size(), result);
    return result;
  }

  void read_attention() {
    ModelSpec& m = run_.model;
    m.num_query_groups = m.num_attention_heads;
    const std::int64_t groups = number("--num-query-groups", 1);
    if (has("--group-query-attention")) m.num_query_groups = groups;
    m.attention =
        m.num_query_groups < m.num_attention_heads ? AttentionKind::kGqa : AttentionKind::kMha;
    m.qk_norm = has("--qk-layernorm");
    m.attention_sinks = text("--softmax-type", "vanilla") == "learnable";
    if (const std::string window = text("--window-size"); !window.empty()) {
      std::int64_t left = 0;
      std::from_chars(window.data(), window.data() + window.size(), left);
      const auto wrong = out_of_range("--window-size", left, {-1, kTokens.highest - 1});
      if (wrong) report(find("--window-size")->name, *wrong);
      m.window = wrong ? 0 : left + 1;
      if (!text("--window-attn-skip-freq").empty()) m.window_every = 2;
    }
    if (!has("--multi-latent-attention")) return;
    MlaSpec mla;  // defaults of MLATransformerConfig as the command line has them
    mla.q_lora_rank = number("--q-lora-rank", 0);
    mla.kv_lora_rank = number("--kv-lora-rank", 32);
    mla.qk_nope_head_dim = number("--qk-head-dim", 128);
    mla.qk_rope_head_dim = number("--qk-pos-emb-head-dim", 64);
    mla.v_head_dim = number("--v-head-dim", 128);
    m.mla = mla;
    m.attention = AttentionKind::kMla;
    m.num_query_groups = m.num_attention_heads;
    m.head_dim = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
    m.qk_norm = false;
  }

  void read_experts() {
    if (number("--num-experts", 0) == 0) return;
    ModelSpec& m = run_.model;
    MoeSpec e;
    e.num_experts = number("--num-experts", 0);
    e.top_k = number("--moe-router-topk", 2);
    e.expert_ffn_hidden_size = number("--moe-ffn-hidden-size", m.ffn_hidden_size);
    e.shared_expert_ffn_hidden_size = number("--moe-shared-expert-intermediate-size", 0);
    e.router_bias = has("--moe-router-enable-expert-bias") || m.linear_bias;
    if (m.linear_bias) {
      m.expert_bias = m.qkv_bias = m.attention_out_bias = true;
      m.linear_bias = false;
    }
    // "([0]*3+[1]*58)": leading dense layers; other patterns are told apart by lint.
    const std::string pattern = text("--moe-layer-freq");
    if (pattern.starts_with("([0]")) {
      std::int64_t dense = 1;
      if (pattern.size() > 5 && pattern[4] == '*') {
        std::from_chars(pattern.data() + 5, pattern.data() + pattern.size(), dense);
      }
      e.first_dense = dense;
    }
    m.moe = e;
  }

  void read_sizes() {
    Strategy& s = run_.strategy;
    s = framework_preset(Framework::kMegatron);
    s.tp = number("--tensor-model-parallel-size", 1, kRanks);
    s.pp = number("--pipeline-model-parallel-size", 1, kStages);
    s.cp = number("--context-parallel-size", 1, kRanks);
    const std::string cp = text("--cp-comm-type", "p2p");
    s.cp_kind = cp == "a2a" ? CpKind::kUlysses : cp == "p2p" ? CpKind::kRing : CpKind::kAllGather;
    s.ep = number("--expert-model-parallel-size", 1, kRanks);
    s.etp = run_.model.moe ? number("--expert-tensor-parallel-size", s.tp, kRanks) : 1;
    s.sequence_parallel = has("--sequence-parallel") && s.tp > 1;
    s.overlap.tp = has("--tp-comm-overlap");
    s.seq_len = number("--seq-length", 1024, kTokens);
    run_.model.max_seq_length = number("--max-position-embeddings", s.seq_len);
    s.micro_batch = number("--micro-batch-size", 1, kSequences);
    const std::int64_t model_ranks = bounded_product({s.tp, s.pp, s.cp});
    if (const auto wrong = out_of_range("tp * pp * cp", model_ranks, kRanks)) {
      problems_.push_back(error_at({file_}, *wrong));
    }
    s.dp = run_.world_size / model_ranks;
    if (has("--global-batch-size")) {
      s.global_batch = number("--global-batch-size", 1, kSequences);
    } else {
      run_.accumulation = 1;
    }
    s.overlap.ep = has("--overlap-moe-expert-parallel-comm");
    // Without groups of experts no dispatcher differs from another.
    const bool flex = text("--moe-token-dispatcher-type") == "flex";
    if (s.ep * s.etp > 1) s.runtime.flex_dispatcher = flex;
    if (has("--use-tp-pp-dp-mapping")) s.order = kPipelineInsideOrder;
  }

  // Layers of every pipeline rank and chunk, as the layout's letters say.
  std::vector<std::int64_t> layout_layers(const MegatronOption& o, Strategy& s) {
    // Repeats multiply each other: of what they unroll to, as many letters as there may be stages.
    constexpr auto kLongest = static_cast<std::size_t>(kStages.highest);
    std::string stages = o.values.empty() ? std::string() : o.values.front().text;
    if (stages.size() > kLongest) return {};
    std::size_t open = 0;  // nothing is repeated before it
    for (std::size_t star = stages.find('*'); star != std::string::npos;
         star = stages.find('*', open)) {
      std::size_t end = star + 1;
      std::int64_t times = 0;
      std::from_chars(stages.data() + end, stages.data() + stages.size(), times);
      while (end < stages.size() && stages[end] >= '0' && stages[end] <= '9') ++end;
      const bool group = star > 0 && stages[star - 1] == ')';
      open = group ? stages.rfind('(', star) : star - 1;
      if (star == 0 || open == std::string::npos || times < 1 || times > 10'000) return {};
      const std::string part =
          group ? stages.substr(open + 1, star - open - 2) : stages.substr(open, 1);
      if (part.size() * static_cast<std::size_t>(times) > kLongest - stages.size()) return {};
      std::string unrolled;
      for (std::int64_t i = 0; i < times; ++i) unrolled += part;
      stages.replace(open, end - open, unrolled);
    }
    std::vector<std::int64_t> chunks(1, 0);
    for (const char c : stages) {
      if (c == '|') chunks.push_back(0);
      if (c == 't') ++chunks.back();
    }
    const auto ranks = static_cast<std::size_t>(std::max<std::int64_t>(s.pp, 1));
    if (chunks.size() % ranks != 0) return {};
    s.vp = static_cast<std::int64_t>(chunks.size() / ranks);
    std::vector<std::int64_t> layers(ranks, 0);
    for (std::size_t i = 0; i < chunks.size(); ++i) layers[i % ranks] += chunks[i];
    return layers;
  }

  void read_stages() {
    Strategy& s = run_.strategy;
    const std::int64_t layers = run_.model.num_layers;
    s.vp = number("--num-virtual-stages-per-pipeline-rank", 1, kStages);
    if (const std::int64_t each = number("--num-layers-per-virtual-pipeline-stage", 0); each > 0) {
      s.vp = std::max<std::int64_t>(layers / std::max<std::int64_t>(s.pp * each, 1), 1);
    }
    const std::int64_t first = number("--decoder-first-pipeline-num-layers", 0);
    const std::int64_t last = number("--decoder-last-pipeline-num-layers", 0);
    if ((first > 0 || last > 0) && s.pp > 1) {
      const std::int64_t ends = (first > 0 ? 1 : 0) + (last > 0 ? 1 : 0);
      const std::int64_t middle = std::max<std::int64_t>(s.pp - ends, 1);
      const std::int64_t each = (layers - first - last) / middle;
      s.stage_layers.assign(static_cast<std::size_t>(s.pp), each);
      if (first > 0) s.stage_layers.front() = first;
      if (last > 0) s.stage_layers.back() = last;
    }
    if (const MegatronOption* layout = find("--pipeline-model-parallel-layout")) {
      s.stage_layers = layout_layers(*layout, s);
      if (s.stage_layers.empty()) report(layout->name, "this pipeline layout cannot be read");
    }
    if (const HybridStages stages = hybrid_stages(arguments(), s.pp);
        !stages.layers_per_rank.empty()) {
      s.vp = stages.chunks;
      if (s.pp > 1) s.stage_layers = stages.layers_per_rank;
    }
    if (s.vp > 1) s.schedule = Schedule::kInterleaved;
    s.overlap.pp = s.vp > 1 && !has("--no-overlap-p2p-communication");
    read_.insert("--microbatch-group-size-per-virtual-pipeline-stage");
  }

  void read_sharding() {
    Strategy& s = run_.strategy;
    s.zero = has("--use-distributed-optimizer") ? 1 : 0;
    const std::string how = text("--data-parallel-sharding-strategy", "optim_grads_params");
    if (has("--use-megatron-fsdp")) {
      s.zero = how == "optim_grads_params" ? 3 : how == "optim_grads" ? 2 : how == "optim" ? 1 : 0;
    }
    if (has("--use-torch-fsdp2")) s.zero = has("--torch-fsdp2-no-reshard-after-forward") ? 2 : 3;
    const std::int64_t copies = number("--num-distributed-optimizer-instances", 1, kRanks);
    run_.replicas = std::max<std::int64_t>(copies, 1);
    s.overlap.grad_reduce = has("--overlap-grad-reduce");
    s.overlap.param_gather = has("--overlap-param-gather");
    s.runtime.fused_grad_accumulation = !has("--no-gradient-accumulation-fusion");
    for (const char* name :
         {"--ckpt-format", "--init-model-with-meta-device", "--megatron-fsdp-main-grads-dtype",
          "--megatron-fsdp-grad-comm-dtype"}) {
      read_.insert(name);
    }
  }

  void read_memory() {
    Strategy& s = run_.strategy;
    const std::string granularity =
        has("--recompute-activations") ? "selective" : text("--recompute-granularity");
    const std::string method = text("--recompute-method");
    const std::int64_t each = number("--recompute-num-layers", 1);
    if (granularity == "selective") s.recompute = Recompute::kSelective;
    if (granularity == "full") {
      s.recompute = Recompute::kFull;
      if (method == "block") {
        for (const std::int64_t layers : stage_layers(s, run_.model)) {
          s.recompute_layers.push_back(std::min(each * s.vp, layers));
        }
      }
    }
    s.offload.optimizer = has("--optimizer-cpu-offload");
    s.offload.activations = number("--cpu-offloading-num-layers", 0) > 0;
    for (const char* name : {"--recompute-modules", "--optimizer-offload-fraction",
                             "--use-precision-aware-optimizer"}) {
      read_.insert(name);
    }
  }

  void read_precision() {
    Strategy& s = run_.strategy;
    s.precision = has("--bf16")   ? Precision::kBf16
                  : has("--fp16") ? Precision::kFp16
                                  : Precision::kFp32;
    const Dtype own = s.precision == Precision::kFp16 ? Dtype::kFp16 : Dtype::kBf16;
    const bool fp32 = s.precision == Precision::kBf16 || s.precision == Precision::kFp32 ||
                      has("--accumulate-allreduce-grads-in-fp32");
    s.grad_dtype = fp32 && !has("--grad-reduce-in-bf16") ? Dtype::kFp32 : own;
    if (!text("--fp8-format").empty()) s.precision = Precision::kFp8;
    s.optimizer_dtype = from_name<Dtype>(text("--exp-avg-dtype", "fp32")).value_or(Dtype::kFp32);
    const std::string backend = text("--attention-backend", "auto");
    s.flash_attention = backend != "unfused" && backend != "local";
    if (backend == "flash") s.runtime.attention = AttentionKernel::kFlash2;
    s.runtime.fused_cross_entropy = has("--cross-entropy-loss-fusion");
    s.runtime.inplace_cross_entropy = text("--cross-entropy-fusion-impl") == "te";
    s.runtime.fused_softmax = !has("--no-masked-softmax-fusion");
    s.runtime.fused_dropout_add = !has("--no-bias-dropout-fusion");
    s.runtime.fused_activation = !has("--no-bias-swiglu-fusion") && !has("--no-bias-gelu-fusion");
    s.runtime.fused_rope = run_.model.mla.has_value() || !has("--no-rope-fusion");
    for (const char* name :
         {"--fp8-recipe", "--exp-avg-sq-dtype", "--moe-flex-dispatcher-backend",
          "--moe-grouped-gemm", "--moe-permute-fusion", "--moe-router-dtype", "--no-rope-fusion",
          "--moe-router-score-function", "--moe-router-load-balancing-type", "--moe-aux-loss-coeff",
          "--moe-router-pre-softmax"}) {
      read_.insert(name);
    }
  }

  std::string file_;
  MegatronRun run_;
  std::set<std::string> read_;
  Diagnostics problems_;
};

}  // namespace

Result<MegatronRun> read_megatron_run(std::string_view text, const std::string& file) {
  return Importer(text, file).read();
}

}  // namespace meshplan
