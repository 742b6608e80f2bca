#pragma once
// Parts of reading Megatron-LM's arguments, which those of Megatron-DeepSpeed share.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/imported_run.hpp"
#include "launch/megatron_hybrid.hpp"
#include "launch/program_options.hpp"

namespace meshplan {

// Any count of layers, elements, words or tokens.
inline constexpr IntegerRange kCount{0, kTokens.highest};

// The model that the options describe, into run.model, with what is assumed of it. Sizes that are
// missing are reported.
void read_megatron_model(ProgramOptions& options, ImportedRun& run);

// Data types, and which layers' products are in few bits, into run.strategy.
void read_data_types(ProgramOptions& options, ImportedRun& run);
// Once it is known how the optimizer is sharded.
void read_precision_aware(ProgramOptions& options, ImportedRun& run);
// Of a strategy whose ranks are read.
void read_dispatch(ProgramOptions& options, ImportedRun& run);
// --optimizer, whose sharding is read already; those that are not modelled count as Adam.
void read_optimizer(ProgramOptions& options, ImportedRun& run);

// What CUDA graphs replay, into run.strategy.runtime.
void read_cuda_graphs(ProgramOptions& options, ImportedRun& run);
void read_offloaded_optimizer(ProgramOptions& options, Offload& offload);
void read_offloaded_modules(ProgramOptions& options, ImportedRun& run);

// Options that stand for themselves, of arguments that `script` gives to a program or, of other
// trainers' files, to none.
void read_switches(ProgramOptions& options, const ShellScript& script, ImportedRun& run);

// Deterministic algorithms, of the option and of Transformer Engine's environment.
void read_determinism(ProgramOptions& options, const ShellScript& script, Runtime& runtime);

// What is logged every step, into run.strategy.runtime.
void read_logging(ProgramOptions& options, ImportedRun& run);

// Adapters that Megatron-Bridge trains in place of all weights.
void read_adapters(ProgramOptions& options, ImportedRun& run);

// How a hybrid's layers are asked for. `options` must outlive it.
[[nodiscard]] ArgumentReader argument_reader(ProgramOptions& options);

// Which layers have experts, as --moe-layer-freq says it: "2", "[0,1]*2", "([0]*3+[1]*58)",
// "[0,1,1,1]". Nothing where it is neither a number nor a list of that many layers.
[[nodiscard]] std::optional<std::vector<bool>> expert_layers(std::string_view text,
                                                             std::int64_t layers);

// Layers of every pipeline rank and the chunks of a rank, as --pipeline-model-parallel-layout says
// them ("Ettt|(tt|)*6tttL"): stages from the first, of which rank i has every pp-th. Empty where
// the text is no layout of that many ranks.
struct PipelineLayout {
  std::vector<std::int64_t> layers_per_rank;
  std::vector<std::int64_t> layers_per_chunk;  // by depth
  std::int64_t chunks = 1;
  std::int64_t layers = 0;  // of all
};
[[nodiscard]] std::optional<PipelineLayout> read_pipeline_layout(std::string text, std::int64_t pp);

// Layers by chunk as `stated`, of a strategy whose stage_layers are its sums; empty where every
// rank's are spread as they are without a layout.
[[nodiscard]] std::vector<std::int64_t> uneven_chunks(const Strategy& s,
                                                      std::vector<std::int64_t> stated);

// Words of a published tokenizer by its name or the name of a folder ("Qwen/Qwen3-8B"); 0: unknown.
[[nodiscard]] std::int64_t tokenizer_words(std::string_view name);

}  // namespace meshplan
