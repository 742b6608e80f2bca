// Plans as overrides of torchtune's recipes, and what the importer of recipes reads in them.
#include <map>
#include <sstream>

#include "recipe_round_trip.hpp"

using namespace meshplan;
using meshplan::test::check_comes_back;
using meshplan::test::plan_of;

namespace {

constexpr const char* kPure =
    "framework=fsdp,master_weights=false,grad_dtype=bf16,optimizer_dtype=bf16,";

std::string script_of(const LaunchPlan& plan) {
  const Result<LaunchFiles> files = launch_files(LaunchFormat::kTorchtune, plan, "1.0");
  if (!files) FAIL(to_text(files.errors()));
  for (const LaunchFile& f : files->files) {
    if (f.name.ends_with(".sh")) return f.text;
  }
  FAIL("no script");
  return {};
}

// The script's overrides over a configuration of the model, as the YAML that torchtune makes of
// both.
std::string merged(const std::string& script, const std::string& component) {
  std::map<std::string, std::string> groups{
      {"model", "_component_: torchtune.models." + component}};
  std::string plain;
  std::size_t at = script.find("plan=(");
  REQUIRE(at != std::string::npos);
  const std::size_t end = script.find("\n)", at);
  std::istringstream lines(script.substr(at, end - at));
  for (std::string line; std::getline(lines, line);) {
    std::erase(line, '\'');
    const std::size_t equals = line.find('=');
    if (line.starts_with("plan=(") || equals == std::string::npos) continue;
    const std::string key =
        line.substr(line.find_first_not_of(' '), equals - line.find_first_not_of(' '));
    const std::string value = line.substr(equals + 1);
    const std::size_t dot = key.find('.');
    if (dot == std::string::npos) {
      plain += key + ": " + value + "\n";
    } else {
      std::string& group = groups[key.substr(0, dot)];
      group += (group.empty() ? "" : ", ") + key.substr(dot + 1) + ": " + value;
    }
  }
  for (const auto& [name, entries] : groups) plain += name + ": {" + entries + "}\n";
  return plain;
}

std::string errors_of(std::int64_t gpus, const std::string& keys) {
  const LaunchPlan plan = plan_of("llama-3.1-8b", gpus == 1 ? "rtx-4090" : "dgx-h100", gpus, keys);
  const Result<LaunchFiles> files = launch_files(LaunchFormat::kTorchtune, plan, "1.0");
  REQUIRE_FALSE(files.ok());
  return to_text(files.errors());
}

}  // namespace

TEST_CASE("a plan comes back from the overrides that are written for torchtune") {
  struct Row {
    std::int64_t gpus;
    const char *keys, *component;
  };
  const auto row = GENERATE(values<Row>(
      {{8, "zero=3,micro_batch=2,recompute=full,packing=pack", "llama3_1.llama3_1_8b"},
       {8, "zero=3,kernels.fused_optimizer=false,packing=pack", "llama3_1.llama3_1_8b"},
       {8, "zero=3,offload.optimizer=true,offload.weights=true,packing=pack",
        "llama3_1.llama3_1_8b"},
       {8, "zero=2,packing=pad", "llama3_1.llama3_1_8b"},
       {8, "zero=3,zero_group=4,packing=pack", "llama3_1.llama3_1_8b"},
       {8, "zero=3,tp=2,packing=pack", "llama3_1.llama3_1_8b"},
       {8, "zero=3,cp=2,cp_kind=ring,packing=pad", "llama3_1.llama3_1_8b"},
       {8, "zero=3,cp=4,cp_kind=allgather,packing=pad", "llama3_1.llama3_1_8b"},
       {8, "zero=3,recompute=full,runtime.host_checkpoints=true,packing=pack",
        "llama3_1.llama3_1_8b"},
       {8, "zero=3,lora.rank=16,lora.dropout=0.05,lora.targets=[q_proj,v_proj],packing=pack",
        "llama3_1.lora_llama3_1_8b"},
       {8,
        "zero=3,lora.rank=8,lora.targets=[q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj],"
        "lora.frozen_dtype=nf4,packing=pad",
        "llama3_1.lora_llama3_1_8b"},
       {1,
        "zero=0,lora.rank=8,lora.targets=[q_proj,v_proj],lora.frozen_dtype=nf4,recompute=full,"
        "optimizer=paged_adam8bit,packing=pack",
        "llama3_1.lora_llama3_1_8b"},
       {1,
        "zero=0,micro_batch=512,recompute=full,optimizer=paged_adam8bit,"
        "runtime.optimizer_in_backward=true,kernels.loss_chunks=8,packing=pack",
        "llama3_1.llama3_1_8b"},
       {8,
        "zero=3,kernels.loss_chunks=4,micro_batch=64,runtime.optimizer_in_backward=true,"
        "packing=pack",
        "llama3_1.llama3_1_8b"},
       {8,
        "zero=3,kernels.fused_norm=true,kernels.fused_rope=true,kernels.fused_activation=true,"
        "kernels.fused_dropout_add=true,kernels.fused_cross_entropy=true,"
        "kernels.inplace_cross_entropy=true,packing=pack",
        "llama3_1.llama3_1_8b"}}));
  CAPTURE(row.keys);
  std::string keys = std::string(kPure) + row.keys;
  // States of 8 bits say themselves what they are.
  if (keys.find("8bit") != std::string::npos)
    keys.replace(keys.find("optimizer_dtype=bf16"), 20, "optimizer_dtype=fp32");
  const LaunchPlan plan =
      plan_of("llama-3.1-8b", row.gpus == 1 ? "rtx-4090" : "dgx-h100", row.gpus, keys);
  check_comes_back(plan, merged(script_of(plan), row.component), "torchtune.yaml");
}

TEST_CASE("what torchtune cannot be told is refused by name") {
  const std::string pure = kPure;
  CHECK(errors_of(8, "framework=fsdp,zero=3").find("without an fp32 copy") != std::string::npos);
  CHECK(errors_of(8, pure + "zero=0").find("zero=2 or zero=3, got zero=0") != std::string::npos);
  CHECK(errors_of(8, pure + "zero=3,packing=balanced").find("packing=pack") != std::string::npos);
  CHECK(errors_of(8, pure + "zero=3,tp=2,lora.rank=8,lora.targets=[q_proj]")
            .find("recipes of adapters have no tensor parallelism") != std::string::npos);
  CHECK(errors_of(8, pure + "zero=3,lora.rank=8,lora.targets=[q_proj,up_proj]")
            .find("up_proj and down_proj together") != std::string::npos);
  CHECK(errors_of(8, pure + "zero=3,lora.rank=8,lora.targets=[q_proj],lora.frozen_dtype=int8")
            .find("in the training dtype or in nf4") != std::string::npos);
  CHECK(errors_of(8, pure + "zero=3,kernels.fused_norm=true").find("compiled all together") !=
        std::string::npos);
  CHECK(errors_of(8, pure + "zero=3,zero_group=4,loss=dpo,micro_batch=2,packing=pad")
            .find("shard over all ranks") != std::string::npos);
  CHECK(errors_of(1, pure + "zero=0,loss=dpo,micro_batch=2,packing=pad")
            .find("pairs train adapters only") != std::string::npos);
  CHECK(errors_of(8, pure + "zero=3,lora.rank=8,lora.targets=[q_proj],micro_batch=64,"
                            "runtime.optimizer_in_backward=true")
            .find("of the recipes that train all weights") != std::string::npos);
  const std::string compiled =
      "zero=3,kernels.fused_norm=true,kernels.fused_rope=true,kernels.fused_activation=true";
  CHECK(errors_of(8, pure + compiled).find("compiled all together") != std::string::npos);
  CHECK(errors_of(8, pure + "zero=3,flash_attention=false").find("attention is fused") !=
        std::string::npos);
  CHECK(errors_of(8, pure + "zero=3,optimizer=muon").find("know Adam and SGD") !=
        std::string::npos);
  CHECK(errors_of(8,
                  "framework=fsdp,zero=3,optimizer=paged_adam8bit,master_weights=false,"
                  "grad_dtype=bf16")
            .find("paged states are of a single device") != std::string::npos);
}
