#include "recipes.hpp"

#include <array>
#include <regex>
#include <string_view>

#include "base/check.hpp"
#include "words.hpp"

namespace meshplan::accuracy {
namespace {

constexpr int kNow = 9999;

// Megatron-Bridge, scripts/performance/configs/*/*_workload_base_configs.py and the YAML files
// before them, in the releases from `from` to `to`.
struct RecipeRow {
  int from, to;
  bool nvl72, nvl8_blackwell, hopper;  // GB200 and GB300; B200 and B300; H100
  std::string_view precision;          // empty: any
  bool across_nodes;                   // only where experts span nodes of eight
  bool inside_node;                    // only where they do not
  std::optional<bool> overlap, flex;   // moe_a2a_overlap; moe_flex_dispatcher_backend is set
  bool graph = false;                  // cuda_graph_impl="full_iteration": no host time
};

constexpr std::array kRecipes{
    // 25.09: DeepEP where experts span nodes of H100, the plain all-to-all elsewhere.
    RecipeRow{2509, 2510, true, true, true, "", false, true, {}, false},
    RecipeRow{2509, 2510, true, true, false, "", false, false, {}, false},
    // HybridEP came to NVL72 in 25.11 and to systems of eight GPUs with 26.02.01.
    RecipeRow{2511, 2601, false, true, true, "", false, true, {}, false},
    // H100 overlapped dispatch until March 2026.
    RecipeRow{2509, 2602, false, false, true, "", false, false, true, {}},
    // DeepSeek-V3 on B200 with experts over four nodes, since April 2026.
    RecipeRow{2604, kNow, false, true, false, "mx", true, false, true, {}},
    // June 2026: graph of the whole iteration, overlapped dispatch, in MXFP8.
    RecipeRow{2606, kNow, true, true, false, "mx", false, false, true, {}, true},
};

bool holds(const RecipeRow& row, int release, const Run& run) {
  if (release < row.from || release > row.to) return false;
  const bool nvl72 = has_any(run.gpu, {"GB200", "GB300"});
  const bool hopper = has_word(run.gpu, "H100");
  const bool blackwell = !nvl72 && has_any(run.gpu, {"B200", "B300"});
  const bool gpu =
      (nvl72 && row.nvl72) || (blackwell && row.nvl8_blackwell) || (hopper && row.hopper);
  if (!gpu || !has_word(run.precision, row.precision)) return false;
  const bool across = !nvl72 && run.ep.value_or(1) > 8;
  return !(row.across_nodes && !across) && !(row.inside_node && across);
}

// DeepSeek-V3's layers under a pipeline: equal chunks that count multi-token prediction as a layer,
// the rest in the last one (recipes/deepseek/deepseek_v3.py,
// set_deepseek_v3_pipeline_model_parallel_layout: 4 x 4 chunks of 4 layers, the last of 1).
void apply_layout(Strategy& s, const Run& run) {
  if (!has_word(run.model.name, "DeepSeek") || s.pp == 1 || !run.model.num_layers) return;
  const std::int64_t layers = *run.model.num_layers;
  const std::int64_t rank = s.vp * ceil_div(layers + 1, s.pp * s.vp);
  if (rank * (s.pp - 1) >= layers) return;
  s.stage_layers.assign(static_cast<std::size_t>(s.pp), rank);
  s.stage_layers.back() = layers - rank * (s.pp - 1);
}

}  // namespace

int container_release(const std::string& text) {
  static const std::regex pattern(R"((\d\d)\.(\d\d)(\.\d+)? container)");
  std::smatch match;
  if (!std::regex_search(text, match, pattern)) return 0;
  return std::stoi(match[1].str()) * 100 + std::stoi(match[2].str());
}

void apply_recipe(Strategy& s, const Source& source, const Run& run) {
  if (!has_word(source.title, "Megatron-Bridge") || s.framework != Framework::kMegatron) return;
  // scripts/performance/utils/overrides.py: grad_reduce_in_fp32 is off in every recipe, the loss
  // Transformer Engine's.
  s.grad_dtype = Dtype::kBf16;
  s.runtime.inplace_cross_entropy = true;
  apply_layout(s, run);
  const int release = container_release(run.where);
  if (release == 0 || !run.model.moe) return;
  for (const RecipeRow& row : kRecipes) {
    if (!holds(row, release, run)) continue;
    // Overlap under a pipeline needs virtual stages (transformer_config.py).
    if (row.overlap) s.overlap.ep = *row.overlap && (s.pp == 1 || s.vp > 1);
    if (row.flex) s.runtime.flex_dispatcher = *row.flex;
    if (row.graph) s.runtime.host_factor = 0;
  }
}

}  // namespace meshplan::accuracy
