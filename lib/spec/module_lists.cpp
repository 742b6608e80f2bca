#include "spec/module_lists.hpp"

#include <algorithm>
#include <cstdint>
#include <variant>

namespace meshplan {
namespace {

bool has_layer(const ModelSpec& m, auto is_such) {
  const std::vector<LayerSpec> all = distinct_layers(m);
  return std::any_of(all.begin(), all.end(), is_such);
}

template <class Kind>
bool has_mixer_of(const ModelSpec& m) {
  return has_layer(m, [](const LayerSpec& l) { return std::holds_alternative<Kind>(l.mixer); });
}

template <class Kind>
bool has_feed_forward_of(const ModelSpec& m) {
  return has_layer(m,
                   [](const LayerSpec& l) { return std::holds_alternative<Kind>(l.feed_forward); });
}

}  // namespace

bool has_module(const ModelSpec& m, RecomputeModule module) {
  switch (module) {
    case RecomputeModule::kCoreAttn:
      return has_mixer_of<AttentionSpec>(m) || has_mixer_of<LatentAttentionSpec>(m) ||
             has_mixer_of<CompressedAttentionSpec>(m) || has_mixer_of<ParallelMixerSpec>(m);
    case RecomputeModule::kLayernorm:
      return true;
    case RecomputeModule::kMlaUpProj:
      return has_mixer_of<LatentAttentionSpec>(m) || has_mixer_of<CompressedAttentionSpec>(m);
    case RecomputeModule::kMlp:
      return has_feed_forward_of<DenseMlpSpec>(m);
    case RecomputeModule::kMoeAct:
    case RecomputeModule::kMoe:
      return m.moe.has_value();
    case RecomputeModule::kSharedExperts:
      return m.moe && m.moe->shared_expert_ffn_hidden_size > 0;
    case RecomputeModule::kMhc:
      return m.mhc_num_residual_streams > 1;
  }
  return false;
}

bool has_module(const ModelSpec& m, CudaGraphModule module) {
  switch (module) {
    case CudaGraphModule::kAttn:
    case CudaGraphModule::kMamba:
      return has_layer(m, [&](const LayerSpec& l) { return graph_module_of(l.mixer) == module; });
    case CudaGraphModule::kMlp:
      return has_feed_forward_of<DenseMlpSpec>(m);
    case CudaGraphModule::kMoe:
    case CudaGraphModule::kMoeRouter:
    case CudaGraphModule::kMoePreprocess:
      return m.moe.has_value();
  }
  return false;
}

bool has_module(const ModelSpec& m, OffloadModule module) {
  switch (module) {
    case OffloadModule::kAttnNorm:
    case OffloadModule::kQkvLinear:
    case OffloadModule::kCoreAttn:
    case OffloadModule::kAttnProj:
      return has_module(m, RecomputeModule::kCoreAttn);
    case OffloadModule::kMlpNorm:
      return has_feed_forward_of<DenseMlpSpec>(m) || m.moe.has_value();
    case OffloadModule::kExpertFc1:
    case OffloadModule::kMoeAct:
      return m.moe.has_value();
  }
  return false;
}

namespace {

// Norms are inside of their products' modules.
bool has_norms_inside(const ModelSpec& m, const Runtime& runtime) {
  return runtime.transformer_engine && !m.moe && !has_module(m, RecomputeModule::kMlaUpProj);
}

}  // namespace

std::vector<RecomputeModules> module_lists(const ModelSpec& m, const Runtime& runtime) {
  using enum RecomputeModule;
  const bool norms_inside = has_norms_inside(m, runtime);
  const auto differs = [&](const RecomputeModules& modules) {
    // All of a mixture's layer is these two's as well.
    if (modules.has(kMoe) && (modules.has(kMoeAct) || modules.has(kSharedExperts))) return false;
    if (norms_inside && modules.has(kLayernorm)) return false;
    // Module mhc repeats norms as well, and excludes mlp.
    if (modules.has(kMhc) && (modules.has(kLayernorm) || modules.has(kMlp))) return false;
    return std::all_of(
        NameTable<RecomputeModule>::rows.begin(), NameTable<RecomputeModule>::rows.end(),
        [&](const auto& row) { return !modules.has(row.value) || has_module(m, row.value); });
  };
  std::vector<RecomputeModules> all;
  constexpr auto& rows = NameTable<RecomputeModule>::rows;
  for (std::uint32_t bits = 0; bits < (1U << rows.size()); ++bits) {
    RecomputeModules modules;
    for (const auto& row : rows) {
      if ((bits >> static_cast<unsigned>(row.value) & 1U) != 0) modules.add(row.value);
    }
    if (differs(modules)) all.push_back(modules);
  }
  return all;
}

std::vector<OffloadModules> offload_lists(const ModelSpec& m, const Runtime& runtime) {
  using enum OffloadModule;
  std::vector<OffloadModules> all{OffloadModules{}};
  for (const auto& row : NameTable<OffloadModule>::rows) {
    const bool norm = row.value == kAttnNorm || row.value == kMlpNorm;
    if (!has_module(m, row.value) || (norm && has_norms_inside(m, runtime))) continue;
    const std::size_t before = all.size();
    for (std::size_t i = 0; i < before; ++i) {
      OffloadModules longer = all[i];
      longer.add(row.value);
      all.push_back(longer);
    }
  }
  // The backward pass of core_attn reads what attn_proj's does.
  std::erase_if(
      all, [](const OffloadModules& list) { return list.has(kAttnProj) && !list.has(kCoreAttn); });
  return all;
}

}  // namespace meshplan
