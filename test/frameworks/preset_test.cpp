#include "frameworks/preset.hpp"

#include <algorithm>
#include <set>

#include "io/load.hpp"
#include "spec/strategy_keys.hpp"
#include "support/catch.hpp"
#include "support/presets.hpp"

using namespace meshplan;

namespace {

std::string release_of(const char* framework, const char* release) {
  const Result<const Preset*> preset = find_preset(framework, release);
  return preset ? (*preset)->release_name : to_text(preset.errors());
}

std::vector<const Preset*> every_preset() {
  (void)shipped_preset("nanotron");  // reads the files
  return *all_presets();
}

}  // namespace

TEST_CASE("A date stands for the newest release that is not after it") {
  const auto row = GENERATE(table<const char*, const char*>({
      {"", "core_r0.19"},
      {"core_r0.12", "core_r0.12"},
      {"2025-05-06", "core_r0.12"},  // the day itself
      {"2025-05-05", "core_r0.11"},
      {"2024-06", "core_r0.7"},  // all of the month, or the year, until its end
      {"2024", "core_r0.8"},
      {"2023-12", "core_r0.4"},
      {"23.06", "23.06"},  // a tag, no date
  }));
  CAPTURE(std::get<0>(row));
  CHECK(release_of("megatron", std::get<0>(row)) == std::get<1>(row));
}

TEST_CASE("Unknown names are errors that say which are known") {
  (void)shipped_preset("nanotron");
  CHECK(release_of("megatorn", "") ==
        "error: there is no framework 'megatorn'\n  hint: did you mean 'megatron'?\n");
  CHECK(release_of("megatron", "core_r0.17") ==
        "error: megatron has no known release 'core_r0.17'\n  hint: did you mean 'core_r0.19'? A "
        "date stands for the newest until then\n");
  CHECK(release_of("megatron", "2019-09") ==
        "error: no release of megatron is as old as 2019-09\n  hint: the oldest known is v2.0 of "
        "2021-01-12\n");
}

TEST_CASE("What a release brought is not in the ones before it") {
  const auto kernels = [](const char* framework, const char* release) {
    return (*find_preset(framework, release))->values.runtime;
  };
  // Megatron-LM 0d389f5e99 (2025-02-25), 7b4a6d76c9 (2024-06-14), de9428a701 (2024-01-18).
  CHECK(kernels("megatron", "core_r0.12").flex_dispatcher);
  CHECK_FALSE(kernels("megatron", "core_r0.11").flex_dispatcher);
  CHECK(kernels("megatron", "core_r0.14").fused_router);
  CHECK_FALSE(kernels("megatron", "core_r0.13").fused_router);
  // e7c55de99e: on main ten weeks before a release had it.
  CHECK(kernels("megatron", "2025-08-18").head_dummy_gradient);
  CHECK_FALSE(kernels("megatron", "2025-07-31").head_dummy_gradient);
  // b97184db56, 5548cdc57b: on main seven months before a release had them.
  CHECK(kernels("megatron", "2026-01-30").offload_margin);
  CHECK(kernels("megatron", "2026-01-30").layer_wise_optimizer);
  CHECK_FALSE(kernels("megatron", "2026-01-13").offload_margin);
  CHECK(kernels("megatron", "core_r0.11").fused_permute);
  CHECK_FALSE(kernels("megatron", "core_r0.8").fused_permute);
  CHECK(kernels("megatron", "core_r0.11").weighted_expert_outputs);
  CHECK_FALSE(kernels("megatron", "core_r0.12").weighted_expert_outputs);
  CHECK_FALSE(kernels("megatron", "v3").fused_router);
  CHECK(kernels("megatron", "core_r0.8").fused_cross_entropy);
  CHECK_FALSE(kernels("megatron", "core_r0.7").fused_cross_entropy);
  CHECK_FALSE(kernels("megatron", "core_r0.8").cloned_logits);
  CHECK(kernels("megatron", "core_r0.7").cloned_logits);
  CHECK(kernels("megatron", "core_r0.12").inplace_cross_entropy);
  CHECK(kernels("megatron", "core_r0.15").inplace_cross_entropy);
  CHECK_FALSE(kernels("megatron", "core_r0.19").inplace_cross_entropy);  // pretrain_gpt.py refuses
  CHECK_FALSE(kernels("megatron", "core_r0.11").inplace_cross_entropy);
  CHECK(kernels("megatron", "core_r0.5").fused_rope);
  CHECK_FALSE(kernels("megatron", "core_r0.4").fused_rope);
  // 2d5220a424 (2023-09-05), 4eeff55d1f (2023-10-23); 27fc468964 (2021-02-09).
  CHECK((*find_preset("megatron", "core_r0.4"))->values.overlap.grad_reduce);
  CHECK((*find_preset("megatron", "23.06"))->values.overlap == Overlap{});
  CHECK(kernels("megatron", "v2.6").scatter_gather);
  CHECK_FALSE(kernels("megatron", "v2.0").scatter_gather);
  // Megatron-Core's p2p_communication.py has had no split since tag 23.04.
  CHECK_FALSE(kernels("megatron", "23.06").scatter_gather);
  CHECK_FALSE(kernels("megatron", "core_r0.19").scatter_gather);
  CHECK(kernels("megatron-deepspeed", "bloom").scatter_gather);
  // torchtitan e8977b007 (2024-12-18) to bbb1b616e (2025-04-02).
  CHECK(kernels("torchtitan", "2024-12-17").inplace_cross_entropy);
  CHECK_FALSE(kernels("torchtitan", "2025-03").inplace_cross_entropy);
  CHECK_FALSE(kernels("torchtitan", "2025-03").fused_cross_entropy);
  CHECK(kernels("torchtitan", "2025-04-02").inplace_cross_entropy);
}

TEST_CASE("Every row has its date and source, and the releases of a framework are told apart") {
  std::set<std::pair<std::string, std::string>> seen;
  std::set<std::string> names;
  for (const Preset* preset : every_preset()) {
    CAPTURE(preset->framework_name, preset->release_name);
    CHECK(preset->date.size() >= 7);
    CHECK_FALSE(preset->source.empty());
    CHECK_FALSE(preset->shards.source.empty());
    CHECK_FALSE(preset->model.how.empty());
    CHECK(seen.emplace(preset->framework_name, preset->release_name).second);
    names.insert(preset->framework_name);
  }
  for (const char* name : {"megatron", "fsdp", "nanotron", "llm-foundry", "internevo"}) {
    CHECK(names.count(name) == 1);
  }
}

TEST_CASE("Older names of a release stand for it") {
  CHECK(&shipped_preset("megatron-v2") == *find_preset("megatron", "v2.6"));
  CHECK(&shipped_preset("deepspeed-v0") == *find_preset("deepspeed", "v0.3"));
  const Result<Strategy> s = load_strategy("framework=megatron-v2,tp=8", Strategy{});
  REQUIRE(s.ok());
  CHECK(to_text(*s) == "framework=megatron,release=v2.6,tp=8");
}

TEST_CASE("A strategy of any release reads back to the same") {
  for (const Preset* preset : every_preset()) {
    Strategy s = with_preset(Strategy{}, *preset);
    s.dp = 0;
    s.tp = 2;
    CAPTURE(to_text(s));
    const Result<Strategy> back = load_strategy(to_text(s), Strategy{});
    REQUIRE(back.ok());
    CHECK(*back == s);
  }
}

TEST_CASE("A release alone is one of the framework that other flags name") {
  const Strategy defaults = framework_preset(Framework::kTorchtitan);
  const Result<Strategy> s = load_strategy("release=2025-01,tp=2", defaults);
  REQUIRE(s.ok());
  CHECK(s->framework == Framework::kTorchtitan);
  CHECK(s->release == (*find_preset("torchtitan", "e8977b007"))->release());
  CHECK(load_strategy("release=core_r0.12", defaults).errors().front().message ==
        "torchtitan has no known release 'core_r0.12'");
}

TEST_CASE("A preset gives its keys and no others") {
  Strategy s;
  s.tp = 4, s.zero = 0, s.runtime.late_gradients = true, s.overlap.tp = true;
  const Strategy with = with_preset(s, Framework::kDeepspeed);
  for (const std::string_view key : strategy_keys()) {
    if (key == "framework" || key == "release") continue;
    CAPTURE(key);
    const std::string preset = value_text(framework_preset(Framework::kDeepspeed), key);
    CHECK(value_text(with, key) == (is_preset_key(key) ? preset : value_text(s, key)));
  }
}

TEST_CASE("Adapters are Megatron-Bridge's, with the loss of its recipes") {
  const Strategy megatron = framework_preset(Framework::kMegatron);
  CHECK_FALSE(as_carried(megatron).runtime.inplace_cross_entropy);
  const Result<Strategy> adapters = load_strategy("tp=2,lora.rank=16", megatron);
  REQUIRE(adapters);
  CHECK(adapters->runtime.inplace_cross_entropy);
  CHECK(to_text(*adapters).find("cross_entropy") == std::string::npos);
  CHECK(load_strategy(to_text(*adapters), Strategy{})->runtime == adapters->runtime);
  // Stated, it stays.
  const Result<Strategy> native =
      load_strategy("tp=2,lora.rank=16,kernels.inplace_cross_entropy=false", megatron);
  REQUIRE(native);
  CHECK_FALSE(native->runtime.inplace_cross_entropy);
  CHECK(load_strategy(to_text(*native), Strategy{})->runtime == native->runtime);
  CHECK_FALSE(load_strategy("lora.rank=16,release=core_r0.8", megatron)
                  ->runtime.inplace_cross_entropy);  // as it was then
}
