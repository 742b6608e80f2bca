#include "io/layer_sections.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "io/layer_keys_reader.hpp"
#include "spec/hybrid_pattern.hpp"

namespace meshplan {
namespace {

constexpr std::array<std::string_view, 10> kMixerKinds{
    "mha",       "gqa", "mla", "compressed", "mamba2", "parallel", "mamba", "gated_delta_net",
    "lightning", "none"};
constexpr std::array<std::string_view, 3> kFeedForwardKinds{"dense", "experts", "none"};

// The kind that a section states, or `fallback`.
std::string_view read_kind(MapReader& r, std::span<const std::string_view> kinds,
                           std::string_view fallback) {
  const YamlNode* node = r.find("kind");
  if (node == nullptr) return fallback;
  const auto kind = read_name(r.document(), r.path_of("kind"), *node, kinds);
  return kind ? kinds[*kind] : fallback;
}

AttentionSpec read_attention(MapReader& r, const ModelSpec& m, bool one_head_each) {
  AttentionSpec mixer{m.num_attention_heads, m.num_query_groups, m.head_dim, m.window};
  mixer.output_gate = m.attention_output_gate;
  // Heads of its own without groups of its own: one key/value head each, if all layers are so.
  if (one_head_each && r.has("num_attention_heads") && !r.has("num_query_groups")) {
    r.read("num_attention_heads", mixer.num_query_groups);
  }
  read_layer_keys(r, mixer, true);
  return mixer;
}

template <class Kind>
Mixer read_own(MapReader& r) {
  Kind kind;
  read_layer_keys(r, kind, false);
  return kind;
}

Mixer read_mixer_of(MapReader& r, std::string_view kind, const ModelSpec& m) {
  if (kind == "mla") {
    LatentAttentionSpec mixer{m.num_attention_heads, m.mla.value_or(MlaSpec{}), m.window};
    r.read("num_attention_heads", mixer.num_attention_heads);
    r.read("window", mixer.window);
    read_layer_keys(r, mixer.sizes, m.mla.has_value());
    return mixer;
  }
  if (kind == "compressed") return read_own<CompressedAttentionSpec>(r);
  if (kind == "parallel") {
    ParallelMixerSpec mixer;
    mixer.attention = {m.num_attention_heads, m.num_query_groups, m.head_dim, m.window};
    read_layer_keys(r, mixer, false);
    return mixer;
  }
  if (kind == "mamba2") return read_own<Mamba2Spec>(r);
  if (kind == "mamba") return read_own<MambaSpec>(r);
  if (kind == "gated_delta_net") return read_own<GatedDeltaNetSpec>(r);
  if (kind == "lightning") return read_own<LightningSpec>(r);
  if (kind == "none") return NoneSpec{};
  return read_attention(r, m, kind == "mha");
}

Mixer read_mixer(MapReader r, const ModelSpec& m) {
  Mixer mixer = read_mixer_of(r, read_kind(r, kMixerKinds, name_of(m.attention)), m);
  r.refuse_unknown();
  return mixer;
}

FeedForward read_feed_forward_of(MapReader& r, std::string_view kind, const ModelSpec& m) {
  if (kind == "none") return NoneSpec{};
  if (kind == "dense") {
    DenseMlpSpec mlp{m.ffn_hidden_size};
    read_layer_keys(r, mlp, true);
    return mlp;
  }
  MoeSpec moe = m.moe.value_or(MoeSpec{});
  read_layer_keys(r, moe, true);
  if (r.read("imbalance", moe.imbalance)) moe.load_histogram.clear(), moe.load_zipf.reset();
  return moe;
}

FeedForward read_feed_forward(MapReader r, const ModelSpec& m) {
  FeedForward part = read_feed_forward_of(r, read_kind(r, kFeedForwardKinds, "dense"), m);
  r.refuse_unknown();
  return part;
}

// Sections by name.
template <class Part>
using Sections = std::map<std::string, Part, std::less<>>;

struct AllSections {
  Sections<Mixer> mixers;
  Sections<FeedForward> feed_forwards;
};

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

// Those of the file, and those that need none: what the keys of all layers say, and nothing.
AllSections read_all_sections(MapReader& r, const ModelSpec& m) {
  AllSections all{read_sections<Mixer>(r, "mixers", m, read_mixer),
                  read_sections<FeedForward>(r, "feed_forwards", m, read_feed_forward)};
  const LayerSpec plain = layer_spec(m, LayerKind::kDense, m.window > 0);
  all.mixers.emplace("attention", plain.mixer);
  all.mixers.emplace("none", NoneSpec{});
  if (m.mla) {
    all.mixers.emplace(m.mla->index.top_k > 0 ? "sparse_attention" : "latent_attention",
                       plain.mixer);
  }
  all.feed_forwards.emplace("dense", plain.feed_forward);
  all.feed_forwards.emplace("none", NoneSpec{});
  if (m.moe) all.feed_forwards.emplace("experts", *m.moe);
  return all;
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

LayerSpec read_parts(MapReader& entry, const AllSections& all, const ModelSpec& m) {
  LayerSpec layer;
  read_part(entry, "mixer", all.mixers, m, read_mixer, layer.mixer);
  read_part(entry, "feed_forward", all.feed_forwards, m, read_feed_forward, layer.feed_forward);
  return layer;
}

constexpr std::size_t kMostRuns = 100'000;

// One entry of `layers`: a run, or a list of runs that is repeated.
void read_entry(MapReader entry, const AllSections& all, ModelSpec& m, bool nested) {
  LayerRun run;
  if (nested || !entry.has("repeat")) {
    entry.read("count", run.count, Need::kRequired);
    run.layer = read_parts(entry, all, m);
    entry.refuse_unknown();
    m.layers.push_back(std::move(run));
    return;
  }
  std::int64_t times = 0;
  entry.read("repeat", times);
  const std::size_t first = m.layers.size();
  const std::vector<const YamlNode*> items = entry.list("layers", Need::kRequired);
  for (std::size_t i = 0; i < items.size(); ++i) {
    read_entry(MapReader(entry.document(), *items[i],
                         entry.path_of("layers") + "[" + std::to_string(i) + "]"),
               all, m, true);
  }
  entry.refuse_unknown();
  const std::size_t period = m.layers.size() - first;
  if (times < 1 || static_cast<std::size_t>(times) > kMostRuns / std::max<std::size_t>(period, 1)) {
    entry.report("repeat", "'" + entry.path_of("repeat") + "' must be from 1 to " +
                               std::to_string(kMostRuns) + " over its layers, got " +
                               std::to_string(times));
    return;
  }
  for (std::int64_t i = 1; i < times; ++i) {
    for (std::size_t k = 0; k < period; ++k) m.layers.push_back(m.layers[first + k]);
  }
}

void read_pattern(MapReader& r, const AllSections& all, ModelSpec& m) {
  std::string text;
  if (!r.read("layers", text)) return;
  const HybridPattern pattern = parse_hybrid_pattern(text);
  if (!pattern.stages.empty()) {
    r.report("layers", "'|' divides the layers over pipeline stages, which is the strategy's",
             "leave it out and give the strategy 'stage_layers'");
    return;
  }
  const std::int64_t stated = m.num_layers;
  const auto lookup = [&](const HybridSymbol& symbol) -> std::optional<LayerSpec> {
    LayerSpec layer{NoneSpec{}, NoneSpec{}};
    if (symbol.is_mixer) {
      const auto at = all.mixers.find(symbol.section);
      if (at == all.mixers.end()) return std::nullopt;
      layer.mixer = at->second;
    } else {
      const auto at = all.feed_forwards.find(symbol.section);
      if (at == all.feed_forwards.end()) return std::nullopt;
      layer.feed_forward = at->second;
    }
    return layer;
  };
  const std::string problem = apply_hybrid_pattern(pattern, lookup, m);
  if (!problem.empty()) r.report("layers", problem);
  m.num_layers = stated;
}

// What each pass of multi-token prediction is built like.
void read_prediction(MapReader& r, const AllSections& all, ModelSpec& m) {
  std::optional<MapReader> mtp = r.map("mtp");
  if (!mtp) return;
  mtp->read("shared", m.mtp_shared);
  if (mtp->has("mixer") || mtp->has("feed_forward")) m.mtp_layer = read_parts(*mtp, all, m);
  mtp->refuse_unknown();
}

}  // namespace

namespace {

void read_encoder(MapReader& r, ModelSpec& m) {
  std::optional<MapReader> section = r.map("encoder");
  if (!section) return;
  EncoderSpec encoder;
  read_layer_keys(*section, encoder, false);
  section->refuse_unknown();
  m.encoder = encoder;
}

}  // namespace

void read_layers(MapReader& r, ModelSpec& m) {
  read_encoder(r, m);
  const AllSections all = read_all_sections(r, m);
  for (const std::string_view key : {"mixers", "feed_forwards"}) {
    if (r.has(key) && !r.has("layers")) {
      r.report(key, "'" + std::string(key) + "' without 'layers' that name its sections");
    }
  }
  const YamlNode* node = r.find("layers");
  if (node != nullptr && node->kind == YamlNode::Kind::kScalar) {
    read_pattern(r, all, m);
  } else {
    const std::vector<const YamlNode*> items = r.list("layers");
    for (std::size_t i = 0; i < items.size(); ++i) {
      read_entry(MapReader(r.document(), *items[i], "layers[" + std::to_string(i) + "]"), all, m,
                 false);
    }
  }
  read_prediction(r, all, m);
}

}  // namespace meshplan
