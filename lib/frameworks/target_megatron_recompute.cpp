// What Megatron-LM recomputes: layers in chunks, or modules by their names.
#include <algorithm>

#include "frameworks/target_tables.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {

CountRule counts_of_megatron_recomputation(const ModelSpec& m) {
  return m.mtp_layers > 0 ? CountRule::kAll : CountRule::kUniform;
}

void check_megatron_recomputation(const Plan& p, Findings& f) {
  const std::vector<RecomputeModules> lists = target_modules(Target::kMegatron, p.m, p.s);
  if (p.s.recompute == Recompute::kSelective && p.s.recompute_modules.empty() &&
      !lists.front().empty()) {
    f.error({"recompute_modules"},
            "selective recomputation repeats modules, of which none is the activation function of "
            "a dense MLP alone",
            "recompute_modules=" + key_text(lists.back()));
    return;
  }
  if (!recomputed_per_chunk(p.s, p.m)) {
    f.error(
        {"recompute_layers"},
        "recomputation is of all layers or of the same number in every chunk of every rank, not "
        "of 'recompute_layers' " +
            key_text(p.s.recompute_layers));
    return;
  }
  const bool some = *recomputed_per_chunk(p.s, p.m) != 0;
  if (some && p.s.recompute == Recompute::kSelective) {
    f.error({"recompute", "recompute_layers"},
            "recomputation is selective or of whole layers, not both");
  }
  const bool every = counts_of_megatron_recomputation(p.m) == CountRule::kAll;
  if (every && *recomputed_per_chunk(p.s, p.m) > 0) {
    f.error({"recompute_layers"},
            "a model with multi-token prediction recomputes every layer or none");
  }
}
void mend_megatron_recomputation(Strategy& s, const ModelSpec& m) {
  if (s.recompute == Recompute::kSelective) {
    s.recompute_layers.clear();
    if (s.recompute_modules.empty()) {
      s.recompute_modules = target_modules(Target::kMegatron, m, s).back();
    }
    return;
  }
  const std::optional<std::int64_t> exact = recomputed_per_chunk(s, m);
  if (exact && (*exact <= 0 || m.mtp_layers == 0)) return;
  const auto most = std::max_element(s.recompute_layers.begin(), s.recompute_layers.end());
  const std::int64_t each = ceil_div(*most, s.vp) * s.vp;
  const std::vector<std::int64_t> layers = stage_layers(s, m);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    s.recompute_layers[i] = m.mtp_layers > 0 ? layers[i] : std::min(each, layers[i]);
  }
  s.recompute = Recompute::kFull, s.recompute_modules = {};
}

namespace {

// Modules whose scales are those of an earlier pass cannot be made anew; what selective
// recomputation repeats where no list says it is among them, but for a dense model.
bool delays_scales(const Strategy& s) {
  return s.precision == Precision::kFp8 && s.runtime.fp8_recipe == ScalingRecipe::kDelayed;
}
bool excludes_delayed(const Strategy& s, const ModelSpec& m) {
  if (s.recompute != Recompute::kSelective) return false;
  if (s.recompute_modules.empty()) return m.moe || m.mla;
  return s.recompute_modules.has(RecomputeModule::kMoeAct) ||
         s.recompute_modules.has(RecomputeModule::kLayernorm);
}

}  // namespace

void check_megatron_modules(const Plan& p, Findings& f) {
  if (p.s.recompute_modules.has(RecomputeModule::kMoeAct) && !p.m.moe) {
    f.error({"recompute_modules"}, "module moe_act needs experts", "without it");
  }
  if (delays_scales(p.s) && excludes_delayed(p.s, p.m)) {
    f.error({"recompute_modules", "recompute", "kernels.fp8_recipe"},
            "delayed scaling excludes modules moe_act and layernorm",
            "without them, or kernels.fp8_recipe=tensorwise");
  }
}
void mend_megatron_modules(Strategy& s, const ModelSpec& m) {
  if (s.recompute != Recompute::kSelective) return;
  RecomputeModules left = s.recompute_modules;
  if (!m.moe) left.erase(RecomputeModule::kMoeAct);
  if (delays_scales(s)) {
    left.erase(RecomputeModule::kMoeAct);
    left.erase(RecomputeModule::kLayernorm);
  }
  const bool nothing = left.empty() && (!s.recompute_modules.empty() ||
                                        (delays_scales(s) && excludes_delayed(s, m)));
  s.recompute_modules = left;
  if (nothing) s.recompute = Recompute::kNone, s.recompute_layers.clear();
}

std::optional<std::int64_t> recomputed_per_chunk(const Strategy& s, const ModelSpec& m) {
  const std::vector<std::int64_t>& counts = s.recompute_layers;
  if (counts.empty()) return s.recompute == Recompute::kFull ? -1 : 0;
  if (std::all_of(counts.begin(), counts.end(), [](std::int64_t c) { return c == 0; })) return 0;
  const std::vector<std::int64_t> layers = stage_layers(s, m);
  if (counts == layers) return -1;
  // A chunk has layers / vp, rounded up or down: n layers of each are n * vp, or all.
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == layers[i]) continue;
    const std::int64_t each = counts[i] / s.vp;
    if (each == 0) return std::nullopt;
    for (std::size_t r = 0; r < counts.size(); ++r) {
      if (counts[r] != std::min(each * s.vp, layers[r])) return std::nullopt;
    }
    return each;
  }
  return std::nullopt;
}

}  // namespace meshplan
