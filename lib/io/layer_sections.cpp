#include "io/layer_sections.hpp"

#include <array>
#include <map>
#include <string>
#include <utility>

namespace meshplan {
namespace {

constexpr std::array<std::string_view, 2> kFeedForwardKinds{"dense", "experts"};

MlaSpec read_latent_sizes(MapReader& r, const ModelSpec& m) {
  MlaSpec sizes = m.mla.value_or(MlaSpec{});
  const Need need = m.mla ? Need::kOptional : Need::kRequired;
  r.read("q_lora_rank", sizes.q_lora_rank);
  r.read("kv_lora_rank", sizes.kv_lora_rank, need);
  r.read("qk_nope_head_dim", sizes.qk_nope_head_dim, need);
  r.read("qk_rope_head_dim", sizes.qk_rope_head_dim, need);
  r.read("v_head_dim", sizes.v_head_dim, need);
  return sizes;
}

Mixer read_mixer(MapReader r, const ModelSpec& m) {
  AttentionKind kind = m.attention;
  std::int64_t heads = m.num_attention_heads, window = m.window;
  r.read("kind", kind);
  const bool own_heads = r.read("num_attention_heads", heads);
  r.read("window", window);
  if (kind == AttentionKind::kMla) {
    LatentAttentionSpec mixer{heads, read_latent_sizes(r, m), window};
    r.refuse_unknown();
    return mixer;
  }
  AttentionSpec mixer{heads, m.num_query_groups, m.head_dim, window};
  // Heads of its own without groups of its own: one key/value head each, if all layers are so.
  if (kind == AttentionKind::kMha && own_heads) mixer.num_query_groups = heads;
  r.read("num_query_groups", mixer.num_query_groups);
  r.read("head_dim", mixer.head_dim);
  r.refuse_unknown();
  return mixer;
}

FeedForward read_feed_forward(MapReader r, const ModelSpec& m) {
  std::size_t kind = 0;
  if (const YamlNode* node = r.find("kind")) {
    kind = read_name(r.document(), r.path_of("kind"), *node, kFeedForwardKinds).value_or(0);
  }
  if (kind == 0) {
    DenseMlpSpec mlp{m.ffn_hidden_size};
    r.read("ffn_hidden_size", mlp.ffn_hidden_size);
    r.refuse_unknown();
    return mlp;
  }
  MoeSpec moe = m.moe.value_or(MoeSpec{});
  r.read("num_experts", moe.num_experts);
  r.read("top_k", moe.top_k);
  r.read("expert_ffn_hidden_size", moe.expert_ffn_hidden_size);
  r.read("shared_expert_ffn_hidden_size", moe.shared_expert_ffn_hidden_size);
  if (r.read("imbalance", moe.imbalance)) moe.load_histogram.clear(), moe.load_zipf.reset();
  r.read("router_bias", moe.router_bias);
  r.refuse_unknown();
  return moe;
}

// Sections by name.
template <class Part>
using Sections = std::map<std::string, Part, std::less<>>;

template <class Part, class Read>
Sections<Part> read_sections(MapReader& r, std::string_view key, const ModelSpec& m, Read read) {
  Sections<Part> sections;
  std::optional<MapReader> all = r.map(key);
  if (!all) return sections;
  for (const auto& [name, node] : all->node().entries) {
    sections.insert_or_assign(name.text,
                              read(MapReader(r.document(), node, all->path_of(name.text)), m));
  }
  return sections;
}

// A section's name, or the section itself.
template <class Part, class Read>
void read_part(MapReader& entry, std::string_view key, const Sections<Part>& sections,
               const ModelSpec& m, Read read, Part& part) {
  const YamlNode* node = entry.find(key);
  if (node != nullptr && node->kind == YamlNode::Kind::kMap) {
    part = read(MapReader(entry.document(), *node, entry.path_of(key)), m);
    return;
  }
  std::string name;
  if (!entry.read(key, name, Need::kRequired)) return;
  const auto section = sections.find(name);
  if (section != sections.end()) {
    part = section->second;
    return;
  }
  std::string names;
  for (const auto& [known, value] : sections) names += (names.empty() ? "" : ", ") + known;
  entry.report(key, "'" + entry.path_of(key) + "' names no section, got \"" + name + "\"",
               "one of " + names);
}

}  // namespace

void read_layers(MapReader& r, ModelSpec& m) {
  Sections<Mixer> mixers = read_sections<Mixer>(r, "mixers", m, read_mixer);
  Sections<FeedForward> feed_forwards =
      read_sections<FeedForward>(r, "feed_forwards", m, read_feed_forward);
  const LayerSpec plain = layer_spec(m, LayerKind::kDense, m.window > 0);
  mixers.emplace("attention", plain.mixer);
  feed_forwards.emplace("dense", plain.feed_forward);
  if (m.moe) feed_forwards.emplace("experts", *m.moe);
  const std::vector<const YamlNode*> items = r.list("layers");
  for (const std::string_view key : {"mixers", "feed_forwards"}) {
    if (r.has(key) && !r.has("layers")) {
      r.report(key, "'" + std::string(key) + "' without 'layers' that name its sections");
    }
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    MapReader entry(r.document(), *items[i], "layers[" + std::to_string(i) + "]");
    LayerRun run;
    entry.read("count", run.count, Need::kRequired);
    read_part(entry, "mixer", mixers, m, read_mixer, run.layer.mixer);
    read_part(entry, "feed_forward", feed_forwards, m, read_feed_forward, run.layer.feed_forward);
    entry.refuse_unknown();
    m.layers.push_back(std::move(run));
  }
}

}  // namespace meshplan
