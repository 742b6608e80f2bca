#pragma once
// Published run -> model and strategies of the planner. The rules are general: tables from the
// words that sources use to the planner's keys, never a correction of one row or one source.
//
// framework   by the file's name, title and repository (kFrameworks in mapping.cpp); its preset
//             comes first, everything below overrides it
// precision   fp32, tf32, fp16, bf16, fp8; every 8-bit recipe ("mxfp8", "fp8 (...)") is fp8
// attention   "unfused", "plain", "torch", "fused" (Megatron's softmax kernel) and "pre-Flash..."
//             are not flash attention; "flash", "SDPA", "xformers" and "TransformerEngine" are
// overlap     as stated; Megatron-LM code without flash attention predates all overlap; pipeline
//             sends overlap in the interleaved schedule alone, tensor parallelism's with sequence
//             parallelism and Transformer Engine alone (Megatron-LM megatron/training/arguments.py)
// gradients   fp16 where Megatron code trains in fp16 (accumulate_allreduce_grads_in_fp32 is off)
// schedule    "1f1b-interleaved" with vp > 1: interleaved; "DualPipe"; "gpipe"; else 1f1b
// dropout     a number, "yes": 0.1; not stated: none
// shard group "group size 8" (ZeRO), "node of 8" (HSDP)
// dp          gpus / (tp * pp * cp) where absent
//
// Fields that the source leaves open and that change the answer are searched: micro_batch, vp,
// sequence_parallel, zero_stage, recompute, attention heads. The candidates list all legal values.
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "frameworks/preset.hpp"
#include "run.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan::accuracy {

struct Candidate {
  ModelSpec model;
  Strategy strategy;
};

struct Mapped {
  std::vector<Candidate> candidates;  // one if everything is stated
  std::vector<std::string> searched;  // names of the fields that vary
};

struct Skip {
  std::string reason;
  bool operator==(const Skip&) const = default;
};

[[nodiscard]] std::string_view framework_of(const Source& source, const Run& run);
// The preset of that name, which must be known.
[[nodiscard]] const Preset& known_preset(std::string_view name);
// The name that stands for the strategy's preset: "megatron-v2", "nanotron".
[[nodiscard]] std::string code_name(const Strategy& s);

// Empty: the text does not tell.
[[nodiscard]] std::optional<bool> flash_attention_of(const std::string& attention_impl);
[[nodiscard]] std::optional<ScalingRecipe> recipe_of(const std::string& precision);
[[nodiscard]] std::optional<Precision> precision_of(const std::string& precision);
// Whether torch.compile ran, from all texts of the row.
[[nodiscard]] std::optional<bool> stated_compilation(const Run& run);

// "true in A/B confs, false in C": whether one of the names after "true in" occurs in the model's.
[[nodiscard]] std::optional<bool> stated_overlap(const std::string& text, const std::string& model);

// The model with `heads` attention heads where the source leaves them open; or what is missing.
[[nodiscard]] std::variant<ModelSpec, Skip> model_of(const Run& run,
                                                     std::optional<std::int64_t> heads = {});

// `source` is where other runs of the same file are looked up (attention heads).
[[nodiscard]] std::variant<Mapped, Skip> map_run(const Source& source, const Run& run);

}  // namespace meshplan::accuracy
