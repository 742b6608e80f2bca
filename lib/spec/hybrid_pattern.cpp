#include "spec/hybrid_pattern.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace meshplan {
namespace {

constexpr auto kSymbols = std::to_array<HybridSymbol>({{'M', "mamba", true},
                                                       {'G', "gated_delta_net", true},
                                                       {'*', "attention", true},
                                                       {'+', "latent_attention", true},
                                                       {'D', "sparse_attention", true},
                                                       {'-', "dense", false},
                                                       {'E', "experts", false}});

std::string quoted(char symbol) { return std::string("'") + symbol + "'"; }

// Fills the places of one layer that a letter stands for; false where one is taken already.
bool add_to(LayerSpec& layer, const LayerSpec& part, bool is_mixer) {
  if (is_mixer && (has_mixer(layer) || has_feed_forward(layer))) return false;
  if (!is_mixer && has_feed_forward(layer)) return false;
  if (is_mixer) {
    layer.mixer = part.mixer;
  } else {
    layer.feed_forward = part.feed_forward;
  }
  return true;
}

char letter_of(const AttentionSpec& kind) { return kind.index.top_k > 0 ? 'D' : '*'; }
char letter_of(const LatentAttentionSpec& kind) { return kind.sizes.index.top_k > 0 ? 'D' : '+'; }
char letter_of(const CompressedAttentionSpec&) { return 0; }
char letter_of(const Mamba2Spec&) { return 'M'; }
char letter_of(const ParallelMixerSpec&) { return 0; }
char letter_of(const MambaSpec&) { return 0; }
char letter_of(const GatedDeltaNetSpec& kind) { return kind.gate_rank > 0 ? 0 : 'G'; }
char letter_of(const LightningSpec&) { return 0; }
char letter_of(const NoneSpec&) { return 0; }
char letter_of(const DenseMlpSpec&) { return '-'; }
char letter_of(const MoeSpec&) { return 'E'; }

}  // namespace

const HybridSymbol* hybrid_symbol(char symbol) {
  const auto at = std::find_if(kSymbols.begin(), kSymbols.end(),
                               [&](const HybridSymbol& row) { return row.symbol == symbol; });
  return at == kSymbols.end() ? nullptr : &*at;
}

HybridPattern parse_hybrid_pattern(std::string_view text) {
  HybridPattern pattern;
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == '/') {
      parts.emplace_back();
    } else if (c == '|' || hybrid_symbol(c) != nullptr) {
      parts.back() += c;
    } else {
      pattern.problem = quoted(c) +
                        " is no layer of a hybrid pattern: M, G, *, +, D are mixers, - and E "
                        "feed-forwards, '|' separates stages, '/' multi-token prediction";
      return pattern;
    }
  }
  std::int64_t stage = 0;
  for (const char c : parts.front()) {
    if (c == '|') {
      pattern.stages.push_back(stage);
      stage = 0;
    } else {
      pattern.layers += c;
      ++stage;
    }
  }
  if (!pattern.stages.empty()) pattern.stages.push_back(stage);
  if (pattern.layers.empty()) pattern.problem = "the pattern has no layers";
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].empty()) continue;
    if (pattern.num_predictions > 0 && parts[i] != pattern.prediction) {
      pattern.problem = "the passes of multi-token prediction differ: '" + pattern.prediction +
                        "' and '" + parts[i] + "'";
    }
    pattern.prediction = parts[i];
    ++pattern.num_predictions;
  }
  return pattern;
}

std::string apply_hybrid_pattern(const HybridPattern& pattern, const HybridLookup& lookup,
                                 ModelSpec& m) {
  if (!pattern.problem.empty()) return pattern.problem;
  std::map<char, LayerSpec> known;
  for (const char c : pattern.layers + pattern.prediction) {
    if (known.contains(c)) continue;
    const HybridSymbol* symbol = hybrid_symbol(c);
    const std::optional<LayerSpec> layer = lookup(*symbol);
    if (!layer) {
      return "the pattern has " + quoted(c) + ", but no section '" + std::string(symbol->section) +
             "' says what that is";
    }
    known.emplace(c, *layer);
  }
  m.layers.clear();
  m.num_layers = static_cast<std::int64_t>(pattern.layers.size());
  for (const char c : pattern.layers) {
    const LayerSpec& layer = known.at(c);
    if (!m.layers.empty() && m.layers.back().layer == layer) {
      ++m.layers.back().count;
    } else {
      m.layers.push_back({1, layer});
    }
  }
  if (pattern.num_predictions == 0) return {};
  LayerSpec prediction{NoneSpec{}, NoneSpec{}};
  for (const char c : pattern.prediction) {
    if (!add_to(prediction, known.at(c), hybrid_symbol(c)->is_mixer)) {
      return "multi-token prediction of '" + pattern.prediction +
             "' cannot be described: one mixer, one feed-forward, or one behind the other";
    }
  }
  m.mtp_layer = prediction;
  m.mtp_layers = pattern.num_predictions;
  return {};
}

char hybrid_letter(const LayerSpec& layer) {
  if (has_mixer(layer) == has_feed_forward(layer)) return 0;
  const auto of = [](const auto& kind) { return letter_of(kind); };
  return has_mixer(layer) ? std::visit(of, layer.mixer) : std::visit(of, layer.feed_forward);
}

std::optional<std::string> hybrid_pattern(const ModelSpec& m,
                                          const std::vector<std::int64_t>& stages) {
  if (m.layers.empty()) return std::nullopt;
  std::map<char, LayerSpec> known;
  const auto add = [&](const LayerSpec& layer, std::int64_t count, std::string& letters) {
    const char letter = hybrid_letter(layer);
    if (letter == 0 || !(known.emplace(letter, layer).first->second == layer)) return false;
    letters.append(static_cast<std::size_t>(count), letter);
    return true;
  };
  std::string letters, prediction;
  for (const LayerRun& run : m.layers) {
    if (!add(run.layer, run.count, letters)) return std::nullopt;
  }
  if (m.mtp_layer) {
    const LayerSpec mixer{m.mtp_layer->mixer, NoneSpec{}};
    const LayerSpec rest{NoneSpec{}, m.mtp_layer->feed_forward};
    if (has_mixer(mixer) && !add(mixer, 1, prediction)) return std::nullopt;
    if (has_feed_forward(rest) && !add(rest, 1, prediction)) return std::nullopt;
  }
  std::string pattern;
  std::size_t next = 0;
  for (std::size_t i = 0; i + 1 < stages.size(); ++i) {
    pattern += letters.substr(next, static_cast<std::size_t>(stages[i])) + "|";
    next += static_cast<std::size_t>(stages[i]);
  }
  pattern += letters.substr(next);
  if (prediction.empty()) return pattern;
  for (std::int64_t i = 0; i < m.mtp_layers; ++i) pattern += "/" + prediction;
  return pattern;
}

}  // namespace meshplan
