// What Megatron-LM's arguments say of the model. Letters are those of the files of Megatron-LM:
// A = megatron/training/arguments.py.
#include <algorithm>
#include <charconv>

#include "base/text.hpp"
#include "launch/megatron_hybrid.hpp"
#include "launch/megatron_parts.hpp"

namespace meshplan {
namespace {

class ModelReader {
 public:
  ModelReader(ProgramOptions& options, ImportedRun& run) : o_(options), run_(run) {}

  void read() {
    ModelSpec& m = run_.model;
    m.name = "imported";
    m.source = "arguments of Megatron-LM";
    const ArgumentReader arguments = argument_reader(o_);
    const std::int64_t hybrid = hybrid_layers(arguments);
    m.num_layers = hybrid > 0 ? o_.number("--num-layers", hybrid, kCount)
                              : needed("--num-layers", "--encoder-num-layers");
    m.hidden_size = needed("--hidden-size");
    m.num_attention_heads = needed("--num-attention-heads");
    if (!missing_.empty()) {
      const bool none = missing_.size() == 3;
      o_.report(none ? "no sizes of a model are here (" + join_words(missing_) + ")"
                     : join_words(missing_) + (missing_.size() == 1 ? " is" : " are") + " missing",
                "an argument list or script of pretrain_gpt.py has them" +
                    std::string(none ? "; a script that only starts another does not" : ""));
    }
    if (!o_.problems().empty()) return;
    m.head_dim = o_.number(
        "--kv-channels", m.hidden_size / std::max<std::int64_t>(m.num_attention_heads, 1), kCount);
    read_mlp();
    m.norm = text_is("--normalization", "RMSNorm") || text_is("--normalization", "rmsnorm")
                 ? Norm::kRmsNorm
                 : Norm::kLayerNorm;
    m.embedding_norm = o_.has("--embed-layernorm");
    read_positions();
    read_vocabulary();
    m.tied_embeddings = !o_.has("--untie-embeddings-and-output-weights");
    m.linear_bias = !o_.has("--disable-bias-linear");
    m.qkv_bias = !m.linear_bias && o_.has("--add-qkv-bias");
    if (!o_.has("--hidden-dropout")) assume("hidden dropout", "0.1", "Megatron-LM's default");
    m.dropout = o_.real("--hidden-dropout", 0.1);
    (void)o_.has("--attention-dropout");  // as the other in all that is known
    m.mtp_layers = o_.number("--mtp-num-layers", 0, kCount);
    m.max_seq_length = o_.number(
        "--max-position-embeddings",
        o_.number("--seq-length", o_.number("--encoder-seq-length", 1024, kTokens), kTokens),
        kCount);
    read_attention();
    read_streams();
    read_experts();
    const HybridProblem problem = read_hybrid(arguments, m);
    if (!problem.option.empty()) o_.report(o_.find(problem.option)->name, problem.message);
  }

 private:
  std::int64_t needed(const std::string& name, const std::string& other = {}) {
    if (!other.empty() && !o_.has(name) && o_.has(other)) return o_.number(other, 1, kCount);
    if (!o_.has(name)) missing_.push_back(name);
    return o_.number(name, 1, kCount);
  }

  bool text_is(const std::string& name, std::string_view value) { return o_.text(name) == value; }

  void assume(std::string what, std::string value, std::string source) {
    run_.assumed.push_back({std::move(what), std::move(value), std::move(source)});
  }

  void read_mlp() {
    ModelSpec& m = run_.model;
    const std::string gate = o_.text("--glu-activation");
    m.gated_mlp = o_.has("--swiglu") || o_.has("--quick-geglu") || !gate.empty();
    const bool silu = o_.has("--swiglu") || gate == "swiglu";
    m.activation = silu                       ? Activation::kSilu
                   : o_.has("--squared-relu") ? Activation::kRelu2
                                              : Activation::kGelu;
    // A:1326: two thirds of 4 h, in whole 64s, where the MLP is gated.
    const std::int64_t usual =
        m.gated_mlp ? 4 * m.hidden_size * 2 / 3 / 64 * 64 : 4 * m.hidden_size;
    if (!o_.has("--ffn-hidden-size") && !o_.has("--intermediate-size")) {
      assume("ffn_hidden_size", std::to_string(usual), "Megatron-LM's default");
    }
    m.ffn_hidden_size =
        o_.number("--ffn-hidden-size", o_.number("--intermediate-size", usual, kCount), kCount);
  }

  void read_positions() {
    const std::string position = o_.text("--position-embedding-type", "learned_absolute");
    const bool rotary = o_.has("--use-rotary-position-embeddings") ||
                        o_.has("--use-llama2-rotary-position-embeddings") ||
                        o_.has("--use-mistral-rotary-position-embeddings");
    const bool learned = (position == "learned_absolute" || position == "absolute") && !rotary;
    const bool none = position == "none" || (learned && o_.has("--no-position-embedding"));
    run_.model.position_embedding = none                  ? PositionEmbedding::kNone
                                    : learned             ? PositionEmbedding::kLearned
                                    : position == "alibi" ? PositionEmbedding::kAlibi
                                                          : PositionEmbedding::kRope;
  }

  // Words of the tokenizer, rounded up as Megatron-LM does where that is more than the estimate's
  // own multiple of 128 per tensor rank (training/tokenizer: _vocab_size_with_padding).
  void read_vocabulary() {
    ModelSpec& m = run_.model;
    for (const char* name : {"--padded-vocab-size", "--pad-vocab-size-to"}) {
      if (!o_.has(name)) continue;
      m.vocab_size = o_.number(name, 1, kCount);
      (void)o_.number("--vocab-size", 1, kCount);
      return;
    }
    m.vocab_size = words();
    const std::int64_t each = o_.number("--make-vocab-size-divisible-by", 128, kCount);
    const std::int64_t tp =
        std::max<std::int64_t>(o_.number("--tensor-model-parallel-size", 1, kRanks), 1);
    const bool padded = !o_.has("--no-pad-vocab-size") && !o_.has("--disable-pad-vocab-size");
    const std::int64_t multiple = bounded_product({each, tp});
    if (padded && each > 128 && multiple < kCount.highest) {
      m.vocab_size = (m.vocab_size + multiple - 1) / multiple * multiple;
    }
  }

  std::int64_t words() {
    if (o_.has("--vocab-size")) {
      return o_.number("--vocab-size", 1, kCount) + o_.number("--extra-vocab-size", 0, kCount);
    }
    constexpr std::int64_t kGpt2 = 50'257;
    const std::string type = o_.text("--tokenizer-type");
    for (const char* name : {"--tokenizer-model", "--tokenizer-name-or-path"}) {
      const std::string model = o_.path(name);
      const std::int64_t known = tokenizer_words(model);
      if (known == 0) continue;
      assume("vocabulary", with_thousands(known), "the published model of " + model);
      return known;
    }
    const std::int64_t extra = o_.number("--extra-vocab-size", 0, kCount);
    const std::string patch = o_.text("--patch-tokenizer-type");
    const std::int64_t of_patch = tokenizer_words(patch);
    if (of_patch > 0) {
      assume("vocabulary", with_thousands(of_patch + extra), "the published model of " + patch);
      return of_patch + extra;
    }
    if (type == "Llama2Tokenizer") {
      assume("vocabulary", "32,000", "Llama 2's tokenizer");
      return 32'000;
    }
    (void)o_.has("--vocab-file");
    if (type == "GPT2BPETokenizer") {
      assume("vocabulary", with_thousands(kGpt2), "GPT-2's tokenizer");
      return kGpt2;
    }
    run_.notes.emplace_back(
        "the vocabulary is the tokenizer's: 50,257 words are assumed (--vocab-size)");
    assume("vocabulary", with_thousands(kGpt2), "GPT-2's; nothing states it");
    return kGpt2;
  }

  void read_attention() {
    ModelSpec& m = run_.model;
    m.num_query_groups = m.num_attention_heads;
    const std::int64_t groups = o_.number("--num-query-groups", 1, kCount);
    if (o_.has("--group-query-attention")) m.num_query_groups = groups;
    if (o_.has("--multi-query-attention")) m.num_query_groups = 1;
    m.attention =
        m.num_query_groups < m.num_attention_heads ? AttentionKind::kGqa : AttentionKind::kMha;
    m.qk_norm = o_.has("--qk-layernorm");
    m.attention_sinks = text_is("--softmax-type", "learnable");
    read_window();
    if (!o_.has("--multi-latent-attention")) return;
    MlaSpec mla;  // defaults of MLATransformerConfig as the command line has them
    mla.q_lora_rank = o_.number("--q-lora-rank", 0, kCount);
    mla.kv_lora_rank = o_.number("--kv-lora-rank", 32, kCount);
    mla.qk_nope_head_dim =
        o_.number("--qk-head-dim", o_.number("--qk-nope-head-dim", 128, kCount), kCount);
    mla.qk_rope_head_dim =
        o_.number("--qk-pos-emb-head-dim", o_.number("--qk-rope-head-dim", 64, kCount), kCount);
    mla.v_head_dim = o_.number("--v-head-dim", 128, kCount);
    m.mla = mla;
    m.attention = AttentionKind::kMla;
    m.num_query_groups = m.num_attention_heads;
    m.head_dim = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
    m.qk_norm = false;
  }

  // `enable_hyper_connections` and `num_residual_streams` are the names of Megatron-LM's dev branch
  // and of Megatron-Bridge.
  void read_streams() {
    if (!o_.has("--enable-mhc-connections") && !o_.has("--enable-hyper-connections")) return;
    ModelSpec& m = run_.model;
    m.mhc_num_residual_streams = o_.number("--mhc-num-residual-streams",
                                           o_.number("--num-residual-streams", 4, kCount), kCount);
    m.mhc_sinkhorn_iterations = o_.number("--mhc-sinkhorn-iterations", 20, kCount);
  }

  void read_window() {
    ModelSpec& m = run_.model;
    std::string window = o_.text("--window-size");
    window.erase(std::remove_if(window.begin(), window.end(),
                                [](char c) { return c == '(' || c == ')' || c == ' '; }),
                 window.end());
    if (window.empty()) return;
    std::int64_t left = 0;
    std::from_chars(window.data(), window.data() + window.size(), left);
    const auto wrong = out_of_range("--window-size", left, {-1, kTokens.highest - 1});
    if (wrong) o_.report(o_.find("--window-size")->name, *wrong);
    m.window = wrong ? 0 : left + 1;
    if (!o_.text("--window-attn-skip-freq").empty()) m.window_every = 2;
  }

  void read_experts() {
    // One expert is what every dense run of Megatron-DeepSpeed's examples asks for.
    if (o_.number("--num-experts", 0, kCount) <= 1) return;
    ModelSpec& m = run_.model;
    MoeSpec e;
    e.num_experts = o_.number("--num-experts", 0, kCount);
    e.top_k = o_.number("--moe-router-topk", o_.number("--moe-topk", 2, kCount), kCount);
    e.expert_ffn_hidden_size = o_.number("--moe-ffn-hidden-size", m.ffn_hidden_size, kCount);
    e.shared_expert_ffn_hidden_size = shared_experts(e);
    e.router_bias = o_.has("--moe-router-enable-expert-bias") || m.linear_bias;
    if (m.linear_bias) {
      m.expert_bias = m.qkv_bias = m.attention_out_bias = true;
      m.linear_bias = false;
    }
    e.router_num_groups = o_.number("--moe-router-num-groups", 0, kCount);
    e.router_group_top_k = o_.number("--moe-router-group-topk", 0, kCount);
    if (e.router_num_groups <= 1 || e.router_group_top_k == 0) {
      e.router_num_groups = e.router_group_top_k = 0;
    }
    read_balance(e);
    m.moe = e;
    const std::string pattern = o_.text("--moe-layer-freq", "1");
    const auto layers = expert_layers(pattern, m.num_layers);
    if (!layers) {
      o_.report(o_.find("--moe-layer-freq")->name,
                "--moe-layer-freq " + pattern + " says nothing of " + std::to_string(m.num_layers) +
                    " layers",
                "a number, or a list of that many zeros and ones: ([0]*3+[1]*58)");
      return;
    }
    place_experts(*layers);
  }

  // [F-MOE-5] Losses balance a router in the mean of many steps, not each rank's load of each of
  // them; biases of experts do (2408.15664), and forced balance of measurements. The number is that
  // for which the peaks of 62 runs of Megatron-LM's CI are met in the mean (benchmarks/accuracy/
  // megatron_ci); capacities are as much above the mean (GShard 2006.16668, Switch 2101.03961).
  void read_balance(MoeSpec& e) {
    constexpr double kBusiest = 1.25;
    if (o_.has("--moe-router-force-load-balancing") || o_.has("--moe-router-enable-expert-bias")) {
      return;
    }
    e.imbalance = kBusiest;
    assume("moe.imbalance", "1.25", "loads of a router that losses balance");
  }

  std::int64_t shared_experts(const MoeSpec& e) {
    const std::int64_t count = o_.number("--num-shared-experts", 0, kCount);
    const std::int64_t each =
        o_.number("--shared-moe-ffn-hidden-size", e.expert_ffn_hidden_size, kCount);
    const std::int64_t both = count > 0                          ? bounded_product({count, each})
                              : o_.has("--enable-shared-expert") ? each
                                                                 : 0;
    return o_.number("--moe-shared-expert-intermediate-size", std::min(both, kCount.highest),
                     kCount);
  }

  // Leading dense layers and every n-th behind them; else layer by layer.
  void place_experts(const std::vector<bool>& has) {
    ModelSpec& m = run_.model;
    MoeSpec& e = *m.moe;
    const auto layers = static_cast<std::int64_t>(has.size());
    for (e.first_dense = 0; e.first_dense < layers; ++e.first_dense) {
      if (has[static_cast<std::size_t>(e.first_dense)]) break;
    }
    if (e.first_dense == layers) {
      m.moe.reset();
      return;
    }
    for (const std::int64_t first : {e.first_dense, std::int64_t{0}}) {
      e.first_dense = first;
      for (e.every = 1; e.every <= layers; ++e.every) {
        bool same = true;
        for (std::int64_t i = 0; i < layers && same; ++i) {
          same = (layer_kind(m, i) == LayerKind::kMoe) == has[static_cast<std::size_t>(i)];
        }
        if (same) return;
        if (e.every > 8) break;  // nobody's pattern, and a long search
      }
    }
    e.first_dense = 0;
    e.every = 1;
    std::vector<LayerRun> runs;
    for (std::size_t i = 0; i < has.size(); ++i) {
      const LayerSpec layer = layer_spec(m, has[i] ? LayerKind::kMoe : LayerKind::kDense,
                                         layer_is_windowed(m, static_cast<std::int64_t>(i)));
      if (!runs.empty() && runs.back().layer == layer) {
        ++runs.back().count;
      } else {
        runs.push_back({1, layer});
      }
    }
    m.layers = std::move(runs);
  }

  ProgramOptions& o_;
  ImportedRun& run_;
  std::vector<std::string> missing_;
};

}  // namespace

ArgumentReader argument_reader(ProgramOptions& o) {
  return {[&o](const std::string& name) { return o.has(name); },
          [&o](const std::string& name) { return o.text(name); },
          [&o](const std::string& name, std::int64_t otherwise) {
            return o.number(name, otherwise, kCount);
          }};
}

void read_megatron_model(ProgramOptions& options, ImportedRun& run) {
  ModelReader(options, run).read();
}

}  // namespace meshplan
