#include <cmath>

#include "base/check.hpp"
#include "model/parameters.hpp"
#include "report/json_value.hpp"
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
Json value_json(LastingName value) { return std::string(value.text()); }

void add_if(Json& json, const char* key, bool value) {
  if (value) json[key] = true;
}

void add_latent_sizes(Json& json, const MlaSpec& sizes) {
  json["q_lora_rank"] = sizes.q_lora_rank;
  json["kv_lora_rank"] = sizes.kv_lora_rank;
  json["qk_nope_head_dim"] = sizes.qk_nope_head_dim;
  json["qk_rope_head_dim"] = sizes.qk_rope_head_dim;
  json["v_head_dim"] = sizes.v_head_dim;
}

Json attention_keys(const ModelSpec& m) {
  Json json{{"kind", std::string(name_of(m.attention))}};
  if (m.mla) add_latent_sizes(json, *m.mla);
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
  return json;
}

Json mixer_keys(const Mixer& mixer) {
  const auto* latent = std::get_if<LatentAttentionSpec>(&mixer);
  Json json;
  if (latent != nullptr) {
    json["kind"] = std::string(name_of(AttentionKind::kMla));
    json["num_attention_heads"] = latent->num_attention_heads;
    add_latent_sizes(json, latent->sizes);
  } else {
    const auto& kind = std::get<AttentionSpec>(mixer);
    json["kind"] = std::string(name_of(AttentionKind::kGqa));
    json["num_attention_heads"] = kind.num_attention_heads;
    json["num_query_groups"] = kind.num_query_groups;
    json["head_dim"] = kind.head_dim;
  }
  json["window"] = window_of(mixer);
  return json;
}

// What the model says of the loads of experts holds where a section says nothing else.
Json feed_forward_keys(const FeedForward& feed_forward, const ModelSpec& m) {
  if (const auto* mlp = std::get_if<DenseMlpSpec>(&feed_forward)) {
    return {{"kind", "dense"}, {"ffn_hidden_size", mlp->ffn_hidden_size}};
  }
  const auto& moe = std::get<MoeSpec>(feed_forward);
  Json json{{"kind", "experts"},
            {"num_experts", moe.num_experts},
            {"top_k", moe.top_k},
            {"expert_ffn_hidden_size", moe.expert_ffn_hidden_size},
            {"shared_expert_ffn_hidden_size", moe.shared_expert_ffn_hidden_size}};
  if (!m.moe || m.moe->imbalance != moe.imbalance) json["imbalance"] = number(moe.imbalance);
  if (!m.moe || m.moe->router_bias != moe.router_bias) json["router_bias"] = moe.router_bias;
  return json;
}

Json layer_keys(const ModelSpec& m) {
  Json runs = Json::array();
  for (const LayerRun& run : m.layers) {
    runs.push_back({{"count", run.count},
                    {"mixer", mixer_keys(run.layer.mixer)},
                    {"feed_forward", feed_forward_keys(run.layer.feed_forward, m)}});
  }
  return runs;
}

// Parameter counts are whole numbers in files.
Json whole(double value) { return static_cast<std::int64_t>(std::llround(value)); }

}  // namespace

Json number(double value) {
  PLAN_CHECK(std::isfinite(value));
  return value;
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
  add_if(json, "expert_bias", m.expert_bias);
  add_if(json, "qk_norm", m.qk_norm);
  add_if(json, "attention_sinks", m.attention_sinks);
  add_if(json, "parallel_block", m.parallel_block);
  add_if(json, "parallel_shared_norm", m.parallel_shared_norm);
  add_if(json, "embedding_norm", m.embedding_norm);
  json["dropout"] = number(m.dropout);
  json["max_seq_length"] = m.max_seq_length;
  json["attention"] = attention_keys(m);
  if (m.moe) json["moe"] = moe_keys(*m.moe);
  if (!m.layers.empty()) json["layers"] = layer_keys(m);
  json["mtp_layers"] = m.mtp_layers;
  if (m.published_parameters > 0) json["published_parameters"] = whole(m.published_parameters);
  if (m.published_active_parameters > 0) {
    json["published_active_parameters"] = whole(m.published_active_parameters);
  }
  if (!m.source.empty()) json["source"] = m.source;
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
