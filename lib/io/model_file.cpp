// Our model files. See the hf_config reader for config.json.
#include <algorithm>

#include "io/layer_keys_reader.hpp"
#include "io/layer_sections.hpp"
#include "io/load.hpp"
#include "io/parts.hpp"
#include "model/rules.hpp"
#include "spec/expert_load.hpp"

namespace meshplan {
namespace {

void read_sizes(MapReader& r, ModelSpec& m) {
  r.read("name", m.name, Need::kRequired);
  r.read("num_layers", m.num_layers, Need::kRequired);
  r.read("hidden_size", m.hidden_size, Need::kRequired);
  // Layers that are listed may have no attention.
  if (r.has("layers")) m.num_attention_heads = 1;
  r.read("num_attention_heads", m.num_attention_heads,
         r.has("layers") ? Need::kOptional : Need::kRequired);
  r.read("vocab_size", m.vocab_size, Need::kRequired);
  r.read("max_seq_length", m.max_seq_length, Need::kRequired);
  r.read("gated_mlp", m.gated_mlp);
  r.read("activation", m.activation);
  r.read("norm", m.norm);
  r.read("position_embedding", m.position_embedding);
  r.read("tied_embeddings", m.tied_embeddings);
  r.read("linear_bias", m.linear_bias);
  r.read("qkv_bias", m.qkv_bias);
  r.read("attention_out_bias", m.attention_out_bias);
  r.read("mlp_bias", m.mlp_bias);
  r.read("expert_bias", m.expert_bias);
  r.read("qk_norm", m.qk_norm);
  r.read("attention_sinks", m.attention_sinks);
  r.read("attention_output_gate", m.attention_output_gate);
  r.read("rotary_percent", m.rotary_percent);
  r.read("sandwich_norm", m.sandwich_norm);
  r.read("logit_softcapping", m.logit_softcapping);
  r.read("attn_logit_softcapping", m.attn_logit_softcapping);
  r.read("parallel_block", m.parallel_block);
  r.read("parallel_shared_norm", m.parallel_shared_norm);
  r.read("embedding_norm", m.embedding_norm);
  r.read("mhc_num_residual_streams", m.mhc_num_residual_streams);
  r.read("mhc_sinkhorn_iterations", m.mhc_sinkhorn_iterations);
  r.read("attn_res_block_size", m.attn_res_block_size);
  r.read("dropout", m.dropout);
  r.read("mtp_layers", m.mtp_layers);
  r.read("source", m.source);
  r.read("notes", m.notes);
  r.read("published_parameters", m.published_parameters);
  r.read("published_active_parameters", m.published_active_parameters);
}

void read_attention(MapReader& r, ModelSpec& m) {
  const bool has_groups = r.read("num_query_groups", m.num_query_groups);
  const bool has_head_dim = r.read("head_dim", m.head_dim);
  bool has_kind = false;
  if (std::optional<MapReader> a = r.map("attention")) {
    has_kind = a->read("kind", m.attention);
    a->read("window", m.window);
    a->read("window_every", m.window_every);
    if (has_kind && m.attention == AttentionKind::kMla) {
      MlaSpec mla;
      read_layer_keys(*a, mla, false);
      m.mla = mla;
    }
    a->refuse_unknown();
  }
  // Defaults stay in range where what they follow from does not: one problem, one message.
  constexpr std::int64_t kMostHeads = 1 << 16;
  if (!r.has("num_query_groups")) {
    m.num_query_groups = std::clamp<std::int64_t>(m.num_attention_heads, 1, kMostHeads);
  }
  if (!has_kind) {
    const bool grouped = has_groups && m.num_query_groups != m.num_attention_heads;
    m.attention = grouped ? AttentionKind::kGqa : AttentionKind::kMha;
  }
  if (m.mla && !has_head_dim) {
    const std::int64_t half = kMostHeads / 2;
    m.head_dim = std::clamp<std::int64_t>(m.mla->qk_nope_head_dim, 1, half) +
                 std::clamp<std::int64_t>(m.mla->qk_rope_head_dim, 0, half);
  }
}

// The default of head_dim, where hidden size and heads allow one.
void derive_head_dim(MapReader& r, ModelSpec& m) {
  if (m.mla || r.has("head_dim")) return;
  if (m.num_attention_heads <= 0 || m.hidden_size <= 0) {
    m.head_dim = 1;  // those two are reported already, or will be
    return;
  }
  if (m.hidden_size % m.num_attention_heads != 0) {
    r.report("num_attention_heads",
             "'num_attention_heads' must divide 'hidden_size' " + std::to_string(m.hidden_size) +
                 ", got " + std::to_string(m.num_attention_heads),
             "or state 'head_dim'");
  }
  m.head_dim = std::clamp<std::int64_t>(m.hidden_size / m.num_attention_heads, 1, 1 << 16);
}

// A number: the busiest expert over the mean; or a map that says more of the loads.
void read_imbalance(MapReader& e, MoeSpec& moe) {
  const YamlNode* node = e.find("imbalance");
  if (node == nullptr || node->kind != YamlNode::Kind::kMap) {
    e.read("imbalance", moe.imbalance);
    return;
  }
  std::optional<MapReader> load = e.map("imbalance");
  if (!load) return;
  const YamlNode* histogram = load->find("histogram");
  const bool is_empty = histogram != nullptr && histogram->kind == YamlNode::Kind::kSequence &&
                        histogram->items.empty();
  if (is_empty || (histogram != nullptr) == load->has("zipf")) {
    load->report("histogram", "'moe.imbalance' needs 'histogram' or 'zipf', not both",
                 "write a number, {histogram: [tokens of each expert]} or {zipf: exponent}");
  }
  const std::vector<const YamlNode*> items = load->list("histogram");
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string key = load->path_of("histogram") + "[" + std::to_string(i) + "]";
    double value = 0;
    if (!read_value(load->document(), key, *items[i], value)) return;
    moe.load_histogram.push_back(value);
  }
  load->read("zipf", moe.load_zipf);
  load->refuse_unknown();
}

void read_experts(MapReader& r, ModelSpec& m) {
  std::optional<MapReader> e = r.map("moe");
  if (!e) return;
  MoeSpec moe;
  read_layer_keys(*e, moe, false);
  read_imbalance(*e, moe);
  if (std::optional<MapReader> layers = e->map("layers")) {
    layers->read("first_dense", moe.first_dense);
    layers->read("every", moe.every);
    layers->refuse_unknown();
  }
  e->refuse_unknown();
  m.moe = moe;
}

std::vector<double> read_numbers(MapReader& r, std::string_view key) {
  std::vector<double> numbers;
  const std::vector<const YamlNode*> items = r.list(key, Need::kRequired);
  for (std::size_t i = 0; i < items.size(); ++i) {
    double value = 0;
    const std::string path = r.path_of(key) + "[" + std::to_string(i) + "]";
    if (!read_value(r.document(), path, *items[i], value)) return {};
    numbers.push_back(value);
  }
  return numbers;
}

// A histogram of the documents' lengths.
void read_lengths(MapReader& r, ModelSpec& m) {
  std::optional<MapReader> map = r.map("lengths");
  if (!map) return;
  LengthSpec lengths;
  map->read("name", lengths.name, Need::kRequired);
  const std::vector<double> tokens = read_numbers(*map, "tokens");
  const std::vector<double> documents = read_numbers(*map, "documents");
  map->refuse_unknown();
  if (tokens.size() != documents.size() && !tokens.empty() && !documents.empty()) {
    map->report("documents", "'lengths.documents' needs one number for each of the " +
                                 std::to_string(tokens.size()) + " lengths, got " +
                                 std::to_string(documents.size()));
  }
  for (std::size_t i = 0; i < std::min(tokens.size(), documents.size()); ++i) {
    lengths.bins.push_back({tokens[i], documents[i]});
  }
  m.lengths = lengths;
}

// The width of dense layers is needed where there are any; a malformed `moe` leaves it open.
Need need_of_dense_width(MapReader& r, const ModelSpec& m) {
  if (!m.moe) return r.has("moe") ? Need::kOptional : Need::kRequired;
  return m.moe->first_dense > 0 || m.moe->every > 1 ? Need::kRequired : Need::kOptional;
}

}  // namespace

Result<ModelSpec> parse_model(std::string_view text, const std::string& file) {
  Document document(text, file);
  if (!document.ok()) return document.diagnostics();
  return read_model(document);
}

Result<ModelSpec> read_model(Document& document) {
  MapReader r(document, document.root());
  if (!document.ok()) return document.diagnostics();
  ModelSpec m;
  read_sizes(r, m);
  read_attention(r, m);
  derive_head_dim(r, m);
  read_experts(r, m);
  // Which layers are dense, and how wide, is said by `layers` where there are any.
  const Need width = r.has("layers") ? Need::kOptional : need_of_dense_width(r, m);
  r.read("ffn_hidden_size", m.ffn_hidden_size, width);
  read_layers(r, m);
  read_lengths(r, m);
  r.refuse_unknown();
  if (m.moe || !r.has("moe")) document.add(findings(m));
  if (!document.ok()) return document.diagnostics();
  if (m.moe) derive_loads(*m.moe);
  if (m.mtp_layer) {
    if (auto* moe = std::get_if<MoeSpec>(&m.mtp_layer->feed_forward)) derive_loads(*moe);
  }
  for (LayerRun& run : m.layers) {
    if (auto* moe = std::get_if<MoeSpec>(&run.layer.feed_forward)) derive_loads(*moe);
  }
  return m;
}

}  // namespace meshplan
