#include <cmath>

#include "base/check.hpp"
#include "model/parameters.hpp"
#include "report/json_value.hpp"
#include "spec/hybrid_pattern.hpp"
#include "spec/layer_keys.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

template <class E>
requires std::is_enum_v<E> Json value_json(E value) { return std::string(name_of(value)); }
Json value_json(std::int64_t value) { return value; }
Json value_json(int value) { return value; }
Json value_json(bool value) { return value; }
Json value_json(double value) { return number(value); }
Json value_json(const std::vector<std::int64_t>& value) { return value; }
Json value_json(const RankOrder& value) { return key_text(value); }
template <class Module>
Json value_json(ModuleSet<Module> value) {
  Json list = Json::array();
  for (const auto& row : NameTable<Module>::rows) {
    if (value.has(row.value)) list.push_back(std::string(row.name));
  }
  return list;
}
Json value_json(const LoraTargets& value) {
  Json names = Json::array();
  for (const LoraTarget target : value.all()) names.push_back(std::string(name_of(target)));
  return names;
}
Json value_json(LastingName value) { return std::string(value.text()); }

void add_if(Json& json, const char* key, bool value) {
  if (value) json[key] = true;
}

// The keys of one kind of layer, without those that are as in `plain`, what a reader starts from.
template <class Kind>
void add_kind(Json& json, const Kind& kind, const Kind& plain = {}) {
  Json defaults = Json::object();
  for_each_layer_key(plain, [&](const LayerKey& key, const auto& value) {
    if (key.has_default) defaults[std::string(key.name)] = value;
  });
  for_each_layer_key(kind, [&](const LayerKey& key, const auto& value) {
    const Json written = value;
    const std::string name(key.name);
    if (!defaults.contains(name) || defaults[name] != written) json[name] = written;
  });
}

Json attention_keys(const ModelSpec& m) {
  Json json{{"kind", std::string(name_of(m.attention))}};
  if (m.mla) {
    json["q_lora_rank"] = m.mla->q_lora_rank;
    add_kind(json, *m.mla);
  }
  if (m.window > 0) {
    json["window"] = m.window;
    if (m.window_every > 1) json["window_every"] = m.window_every;
  }
  return json;
}

// A number, or what derive_loads makes one of.
Json imbalance_json(const MoeSpec& e) {
  Json json = Json::object();
  if (e.load_zipf) {
    json["zipf"] = number(*e.load_zipf);
  } else if (!e.load_histogram.empty()) {
    json["histogram"] = e.load_histogram;
  } else {
    return number(e.imbalance);
  }
  return json;
}

Json moe_keys(const MoeSpec& e) {
  Json json{{"num_experts", e.num_experts},
            {"top_k", e.top_k},
            {"expert_ffn_hidden_size", e.expert_ffn_hidden_size},
            {"shared_expert_ffn_hidden_size", e.shared_expert_ffn_hidden_size},
            {"layers", {{"first_dense", e.first_dense}, {"every", e.every}}},
            {"imbalance", imbalance_json(e)}};
  add_if(json, "router_bias", e.router_bias);
  if (e.latent_size > 0) json["latent_size"] = e.latent_size;
  add_if(json, "latent_norm", e.latent_norm);
  if (e.router_num_groups > 0) {
    json["router_num_groups"] = e.router_num_groups;
    json["router_group_top_k"] = e.router_group_top_k;
  }
  return json;
}

// What a section of attention leaves out is what the model says of all layers.
template <class Kind>
Kind left_out(const ModelSpec&, const Kind&) {
  return {};
}
AttentionSpec left_out(const ModelSpec& m, const AttentionSpec&) {
  AttentionSpec plain;
  plain.window = m.window;
  plain.output_gate = m.attention_output_gate;
  return plain;
}
LatentAttentionSpec left_out(const ModelSpec& m, const LatentAttentionSpec&) {
  return {0, m.mla.value_or(MlaSpec{}), m.window};
}

Json mixer_keys(const Mixer& mixer, const ModelSpec& m) {
  return std::visit(
      [&](const auto& kind) {
        Json json{{"kind", std::string(kind_name(kind))}};
        add_kind(json, kind, left_out(m, kind));
        return json;
      },
      mixer);
}

// What the model says of all experts holds where a section says nothing else: where it says it, the
// section writes all of its own.
Json feed_forward_keys(const FeedForward& feed_forward, const ModelSpec& m) {
  const auto* moe = std::get_if<MoeSpec>(&feed_forward);
  if (moe == nullptr) {
    return std::visit(
        [](const auto& kind) {
          Json json{{"kind", std::string(kind_name(kind))}};
          add_kind(json, kind);
          return json;
        },
        feed_forward);
  }
  Json json{{"kind", "experts"},
            {"num_experts", moe->num_experts},
            {"top_k", moe->top_k},
            {"expert_ffn_hidden_size", moe->expert_ffn_hidden_size},
            {"shared_expert_ffn_hidden_size", moe->shared_expert_ffn_hidden_size}};
  if (!m.moe || m.moe->latent_size != moe->latent_size) json["latent_size"] = moe->latent_size;
  if (!m.moe || m.moe->latent_norm != moe->latent_norm) json["latent_norm"] = moe->latent_norm;
  if (!m.moe || m.moe->imbalance != moe->imbalance) json["imbalance"] = number(moe->imbalance);
  if (!m.moe || m.moe->router_bias != moe->router_bias) json["router_bias"] = moe->router_bias;
  const MoeSpec all = m.moe.value_or(MoeSpec{});
  if (all.router_num_groups != moe->router_num_groups ||
      all.router_group_top_k != moe->router_group_top_k) {
    json["router_num_groups"] = moe->router_num_groups;
    json["router_group_top_k"] = moe->router_group_top_k;
  }
  return json;
}

Json part_keys(const LayerSpec& layer, const ModelSpec& m) {
  return {{"mixer", mixer_keys(layer.mixer, m)},
          {"feed_forward", feed_forward_keys(layer.feed_forward, m)}};
}

Json layer_keys(const ModelSpec& m) {
  Json runs = Json::array();
  for (const LayerRun& run : m.layers) {
    Json keys{{"count", run.count}};
    keys.update(part_keys(run.layer, m));
    runs.push_back(std::move(keys));
  }
  return runs;
}

// A hybrid pattern and the sections of its letters.
void add_pattern(Json& json, const ModelSpec& m, const std::string& pattern) {
  json["layers"] = pattern;
  std::vector<LayerSpec> layers = distinct_layers(m);
  if (m.mtp_layer) {  // the pattern spells its parts
    layers.push_back({m.mtp_layer->mixer, NoneSpec{}});
    layers.push_back({NoneSpec{}, m.mtp_layer->feed_forward});
  }
  for (const LayerSpec& layer : layers) {
    const HybridSymbol* symbol = hybrid_symbol(hybrid_letter(layer));
    if (symbol == nullptr) continue;
    const std::string section(symbol->section);
    if (symbol->is_mixer) {
      json["mixers"][section] = mixer_keys(layer.mixer, m);
    } else {
      json["feed_forwards"][section] = feed_forward_keys(layer.feed_forward, m);
    }
  }
}

void add_layers(Json& json, const ModelSpec& m) {
  const std::optional<std::string> pattern = hybrid_pattern(m);
  if (pattern) {
    add_pattern(json, m, *pattern);
  } else if (!m.layers.empty()) {
    json["layers"] = layer_keys(m);
  }
  Json mtp = Json::object();
  if (m.mtp_layer && !pattern) mtp = part_keys(*m.mtp_layer, m);
  add_if(mtp, "shared", m.mtp_shared);
  if (!mtp.empty()) json["mtp"] = mtp;
}

// Parameter counts are whole numbers in files.
Json whole(double value) { return static_cast<std::int64_t>(std::llround(value)); }

}  // namespace

Json number(double value) {
  PLAN_CHECK(std::isfinite(value));
  return value;
}

Json lengths_json(const LengthSpec& lengths) {
  Json tokens = Json::array(), documents = Json::array();
  for (const LengthBin& bin : lengths.bins) {
    tokens.push_back(number(bin.tokens)), documents.push_back(number(bin.documents));
  }
  return {
      {"name", lengths.name}, {"tokens", std::move(tokens)}, {"documents", std::move(documents)}};
}

Json model_keys(const ModelSpec& m) {
  Json json{{"name", m.name},
            {"num_layers", m.num_layers},
            {"hidden_size", m.hidden_size},
            {"num_attention_heads", m.num_attention_heads}};
  if (!m.mla) {
    json["num_query_groups"] = m.num_query_groups;
    json["head_dim"] = m.head_dim;
  }
  json["ffn_hidden_size"] = m.ffn_hidden_size;
  json["gated_mlp"] = m.gated_mlp;
  json["activation"] = std::string(name_of(m.activation));
  json["norm"] = std::string(name_of(m.norm));
  json["position_embedding"] = std::string(name_of(m.position_embedding));
  json["vocab_size"] = m.vocab_size;
  json["tied_embeddings"] = m.tied_embeddings;
  json["linear_bias"] = m.linear_bias;
  add_if(json, "qkv_bias", m.qkv_bias);
  add_if(json, "attention_out_bias", m.attention_out_bias);
  add_if(json, "mlp_bias", m.mlp_bias);
  add_if(json, "expert_bias", m.expert_bias);
  add_if(json, "qk_norm", m.qk_norm);
  add_if(json, "attention_sinks", m.attention_sinks);
  add_if(json, "attention_output_gate", m.attention_output_gate);
  if (m.rotary_percent < 1) json["rotary_percent"] = number(m.rotary_percent);
  add_if(json, "sandwich_norm", m.sandwich_norm);
  add_if(json, "logit_softcapping", m.logit_softcapping);
  add_if(json, "attn_logit_softcapping", m.attn_logit_softcapping);
  add_if(json, "parallel_block", m.parallel_block);
  add_if(json, "parallel_shared_norm", m.parallel_shared_norm);
  add_if(json, "embedding_norm", m.embedding_norm);
  if (m.mhc_num_residual_streams > 1) {
    json["mhc_num_residual_streams"] = m.mhc_num_residual_streams;
    json["mhc_sinkhorn_iterations"] = m.mhc_sinkhorn_iterations;
  }
  if (m.attn_res_block_size > 0) json["attn_res_block_size"] = m.attn_res_block_size;
  json["dropout"] = number(m.dropout);
  json["max_seq_length"] = m.max_seq_length;
  json["attention"] = attention_keys(m);
  if (m.moe) json["moe"] = moe_keys(*m.moe);
  add_layers(json, m);
  json["mtp_layers"] = m.mtp_layers;
  if (m.encoder) {
    Json encoder = Json::object();
    add_kind(encoder, *m.encoder);
    json["encoder"] = encoder;
  }
  if (m.lengths) json["lengths"] = lengths_json(*m.lengths);
  if (m.published_parameters > 0) json["published_parameters"] = whole(m.published_parameters);
  if (m.published_active_parameters > 0) {
    json["published_active_parameters"] = whole(m.published_active_parameters);
  }
  if (!m.source.empty()) json["source"] = m.source;
  if (!m.notes.empty()) json["notes"] = m.notes;
  return json;
}

Json model_json(const ModelSpec& m) {
  const ParameterCount count = parameter_count(m);
  return {{"name", m.name},
          {"parameters", count.total},
          {"active_parameters", count.active},
          {"spec", model_keys(m)}};
}

Json strategy_json(const Strategy& s) {
  Json json = Json::object();
  for_each_key(s, [&](std::string_view key, const auto& value) {
    const std::size_t dot = key.find('.');
    if (dot == std::string_view::npos) {
      json[std::string(key)] = value_json(value);
    } else {
      json[std::string(key.substr(0, dot))][std::string(key.substr(dot + 1))] = value_json(value);
    }
  });
  return json;
}

}  // namespace meshplan
