#pragma once
// What each training code does unless it is told otherwise: a row per framework and release, with
// its date and source. Rows of frameworks in use are built in; others are files of the same keys
// (io/presets_file.hpp), read when a name asks for them.
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// The part of a strategy that a framework decides.
struct PresetValues {
  int zero = 1;
  bool master_weights = true;
  Dtype grad_dtype = Dtype::kFp32;
  Dtype optimizer_dtype = Dtype::kFp32;
  Overlap overlap;
  Runtime runtime;
  bool offload_weights = false;  // its optimizer goes to the host with weights and gradients

  bool operator==(const PresetValues&) const = default;
};

// Whether `key` is one of these.
[[nodiscard]] bool is_preset_key(std::string_view key);

enum class ReshardKind {
  kUnchanged,  // the same shards
  kAtLoad,     // the framework cuts them anew while it loads
  kOption,     // likewise, if the checkpoint is saved or loaded with an option
  kConverted,  // a tool of the framework converts the checkpoint first
  kNo,         // the framework refuses, or has no way
};
[[nodiscard]] std::string_view name_of(ReshardKind k);

// How a checkpoint of one strategy loads under another.
struct ReshardRule {
  ReshardKind kind = ReshardKind::kNo;
  std::string how{};
  std::string source{};

  bool operator==(const ReshardRule&) const = default;
};

struct Preset {
  std::string framework_name{};
  std::string release_name{};
  std::string date{};    // YYYY-MM-DD, of the release
  std::string source{};  // of the values that it differs in from the release before, or of all
  PresetValues values{};
  ReshardRule shards{};   // only the ranks that share optimizer states, or the ZeRO stage, change
  ReshardRule model{};    // tp, pp or its layers, ep or etp change too
  bool exported = false;  // there is an exporter, and it writes what this release reads
  std::string alias{};    // a framework's name that stands for this release

  // Of a row of the table, which lives as long as the program.
  [[nodiscard]] Framework framework() const { return Framework(framework_name); }
  [[nodiscard]] Release release() const { return Release(release_name); }
};

// The rows that are built in, by framework, newest first.
[[nodiscard]] std::vector<Preset> built_in_presets();

// Where more rows come from when a name is not among the known: called once, on demand, from
// whichever thread asks. Set it before the first look-up.
using PresetSource = std::function<Result<std::vector<Preset>>()>;
void set_preset_source(PresetSource source);

// Every row, the source's included; newest first in each framework.
[[nodiscard]] Result<std::vector<const Preset*>> all_presets();

// `release`: a name ("core_r0.12"), a date ("2024-06": the newest row that is not after it), or
// empty for the newest. Unknown names are errors that list the known and the nearest.
[[nodiscard]] Result<const Preset*> find_preset(std::string_view framework,
                                                std::string_view release = {});
// The row of the strategy's own framework and release, which must be known.
[[nodiscard]] const Preset& preset_of(const Strategy& s);
[[nodiscard]] const Preset& newest_preset(Framework f);

[[nodiscard]] PresetValues values_of(const Strategy& s);

// What the row decides; everything else in `s` stays.
[[nodiscard]] Strategy with_preset(Strategy s, const Preset& preset);
[[nodiscard]] Strategy with_preset(Strategy s, Framework f);  // its newest
[[nodiscard]] Strategy framework_preset(Framework f);

// What a strategy with adapters or frozen parts starts from: for Megatron's newest release they are
// Megatron-Bridge's, most of whose recipes have Transformer Engine's loss
// (src/megatron/bridge/recipes, cross_entropy_fusion_impl), which pretrain_gpt.py refuses.
[[nodiscard]] Strategy as_carried(Strategy s);

// "megatron", and with its release where that is not the newest: "megatron v2.6".
[[nodiscard]] std::string full_name(const Preset& preset);

// The keys in which `s` differs from its preset, with their values, in a fixed order: framework
// first, release where it is not the newest, dp unless it is left open.
[[nodiscard]] std::vector<std::pair<std::string_view, std::string>> own_values(const Strategy& s);

// "tp=8,pp=16,...": the keys that differ from the framework's preset, in a fixed order; reads back
// to the same strategy.
[[nodiscard]] std::string to_text(const Strategy& s);

}  // namespace meshplan
