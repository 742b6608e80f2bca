#include "launch/launch.hpp"

#include <array>

#include "frameworks/preset.hpp"
#include "launch/targets.hpp"
#include "spec/strategy_keys.hpp"

namespace meshplan {
namespace {

struct FormatRow {
  LaunchFormat format;
  std::string_view description, limits;
};
constexpr std::array kFormats{
    FormatRow{LaunchFormat::kMegatron, "Megatron-LM: argument list of pretrain_gpt.py and a script",
              "schedules other than 1f1b and interleaved, alibi, parallel blocks, experts under tp "
              "without sequence parallelism"},
    FormatRow{LaunchFormat::kDeepspeed,
              "DeepSpeed, Megatron-DeepSpeed: ds_config.json, arguments and a script",
              "ZeRO-2 and 3 or experts with a pipeline, schedules other than 1f1b, uneven stages, "
              "sequence parallelism, ring attention, fp8"},
    FormatRow{LaunchFormat::kTorchtitan, "torchtitan v0.2.2: job file and a script",
              "models that it does not ship, ZeRO-1, Ulysses, fp16, tp without sequence "
              "parallelism, some layers recomputed"},
    FormatRow{LaunchFormat::kMegatronBridge, "Megatron-Bridge: a recipe's overrides in a script",
              "what Megatron-LM refuses; the model is the recipe's"},
    FormatRow{LaunchFormat::kAccelerate, "Hugging Face accelerate with FSDP2: YAML and a script",
              "pipelines, expert parallelism, sequence parallelism, ZeRO-0 and 1, Ulysses, "
              "selective recomputation"},
    FormatRow{
        LaunchFormat::kAxolotl, "axolotl with FSDP2: its YAML and a script",
        "what accelerate refuses, but for ZeRO-0; Ulysses, a ring of packed rows, adapters of "
        "joined projections"},
    FormatRow{
        LaunchFormat::kTorchtune, "torchtune with FSDP2: overrides of a recipe in a script",
        "what accelerate refuses; master weights, fp16 and fp8, tensor parallelism of adapters, "
        "unpadded rows"},
    FormatRow{LaunchFormat::kSlurm, "sbatch script that starts the plan's framework on every node",
              "what the plan's framework refuses; old releases; nanotron, llm-foundry, internevo"},
};

// "framework=deepspeed,zero=1": the keys in which the two differ, as `to` has them, without those
// that a changed framework sets of its own accord.
std::string changes(Strategy from, const Strategy& to) {
  std::string text;
  if (from.framework != to.framework || from.release != to.release) {
    const int zero = from.zero;
    text = from.framework == to.framework ? "release=" + key_text(to.release)
                                          : "framework=" + key_text(to.framework);
    from = with_preset(std::move(from), preset_of(to));
    from.zero = zero;
  }
  for (const std::string_view key : strategy_keys()) {
    const std::string value = value_text(to, key);
    if (value == value_text(from, key)) continue;
    text += (text.empty() ? "" : ",") + std::string(key) + "=" + value;
  }
  return text;
}

// How to find the best plan that the target can express: it has a space of its own, or runs what
// another has, of which it may not be told everything.
std::string searched(Target target, const std::string& changed) {
  if (target == Target::kAxolotl || target == Target::kTorchtune) {
    return "'meshplan plan --space fsdp" + (changed.empty() ? "" : " --fix '" + changed + "'") +
           "' searches beside it";
  }
  const Target own = target == Target::kMegatronBridge ? Target::kMegatron : target;
  return "'meshplan plan --space " + std::string(name_of(own)) + "' finds the best that it can";
}

// Every broken rule, and what to change.
Diagnostics refusal(Target target, const LaunchPlan& p, const Findings& broken) {
  Diagnostics all;
  for (const Finding& finding : broken.all()) {
    Diagnostic d = finding.diagnostic;
    d.message = std::string(name_of(target)) + " cannot express the plan: " + d.message;
    all.push_back(std::move(d));
  }
  const std::optional<Strategy> near = nearest_expressible(target, p.strategy, p.model, p.cluster);
  if (!near) {
    all.back().hint = "no plan near to it can be expressed either; " + searched(target, {});
    return all;
  }
  const std::string changed = changes(p.strategy, *near);
  all.back().hint = "the nearest plan that it can: " + changed + "; " + searched(target, changed);
  return all;
}

// Programs of the user's put adapters on: PEFT, and what it must be told.
void add_adapter_note(Target target, const Strategy& s, std::vector<std::string>& notes) {
  if (!has_adapters(s) || target == Target::kMegatronBridge || target == Target::kAxolotl ||
      target == Target::kTorchtune) {
    return;
  }
  std::string text =
      "adapters are the program's: peft.LoraConfig(r=" + std::to_string(s.lora.rank) +
      ", lora_dropout=" + key_text(s.lora.dropout) + ") on " + key_text(s.lora.targets);
  if (s.lora.frozen_dtype == FrozenDtype::kNf4) {
    text +=
        ", the model loaded with BitsAndBytesConfig(load_in_4bit=True, "
        "bnb_4bit_quant_type=\"nf4\", bnb_4bit_use_double_quant=True)";
  } else if (s.lora.frozen_dtype == FrozenDtype::kInt8) {
    text += ", the model loaded with BitsAndBytesConfig(load_in_8bit=True)";
  }
  notes.push_back(text);
}

void add_frozen_note(Target target, const Strategy& s, std::vector<std::string>& notes) {
  if (s.frozen.empty() || target == Target::kMegatronBridge) return;
  notes.push_back("the program must freeze " + key_text(s.frozen) +
                  ": requires_grad_(False) before its optimizer is made");
}

LaunchCommand command_for(Target target, const LaunchPlan& plan) {
  switch (target) {
    case Target::kDeepspeed:
      return deepspeed_command(plan);
    case Target::kTorchtitan:
      return torchtitan_command(plan);
    case Target::kAccelerate:
      return accelerate_command(plan);
    case Target::kAxolotl:
      return axolotl_command(plan);
    case Target::kTorchtune:
      return torchtune_command(plan);
    case Target::kMegatronBridge:
      return bridge_command(plan);
    case Target::kMegatron:
      break;
  }
  return pretrain_command(plan);
}

}  // namespace

std::string_view description_of(LaunchFormat format) {
  return kFormats[static_cast<std::size_t>(format)].description;
}

std::string_view limits_of(LaunchFormat format) {
  return kFormats[static_cast<std::size_t>(format)].limits;
}

Result<Target> target_of(LaunchFormat format, const Strategy& s, const ModelSpec& m) {
  switch (format) {
    case LaunchFormat::kMegatron:
      return Target::kMegatron;
    case LaunchFormat::kDeepspeed:
      return Target::kDeepspeed;
    case LaunchFormat::kTorchtitan:
      return Target::kTorchtitan;
    case LaunchFormat::kMegatronBridge:
      return Target::kMegatronBridge;
    case LaunchFormat::kAccelerate:
      return Target::kAccelerate;
    case LaunchFormat::kAxolotl:
      return Target::kAxolotl;
    case LaunchFormat::kTorchtune:
      return Target::kTorchtune;
    case LaunchFormat::kSlurm:
      break;
  }
  // Slurm starts the plan's own framework.
  if (const std::optional<Target> target = target_of(s, m)) return *target;
  return error("there is no launch script for " + std::string(name_of(s.framework)),
               "plan for megatron, deepspeed, megatron-deepspeed, torchtitan or fsdp");
}

Result<LaunchFiles> launch_files(LaunchFormat format, const LaunchPlan& plan,
                                 std::string_view tool_version) {
  const Result<Target> target = target_of(format, plan.strategy, plan.model);
  if (!target) return target.errors();
  const Findings broken = target_findings(*target, plan.strategy, plan.model, plan.cluster);
  if (broken.has_errors()) return refusal(*target, plan, broken);
  LaunchCommand command = command_for(*target, plan);
  add_adapter_note(*target, plan.strategy, command.notes);
  add_frozen_note(*target, plan.strategy, command.notes);
  LaunchFiles result;
  if (format == LaunchFormat::kSlurm) {
    result.files.push_back({"train.sbatch", slurm_script(plan, command)});
  }
  result.files.push_back({"train.sh", node_script(plan, command)});
  for (const LaunchFile& file : command.files) result.files.push_back(file);
  if (*target == Target::kMegatron) {
    result.files.push_back({"megatron.args", arguments_text(plan, command)});
  }
  result.files.push_back(
      {"launch.json", launch_document(plan, command, format, *target, tool_version)});
  result.notes = command.notes;
  return result;
}

}  // namespace meshplan
