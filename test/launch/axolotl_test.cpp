// Plans as axolotl's recipes, and what the importer of recipes reads in them.
#include "recipe_round_trip.hpp"

using namespace meshplan;
using meshplan::test::check_comes_back;
using meshplan::test::plan_of;

namespace {

std::string recipe_of(const LaunchPlan& plan) {
  const Result<LaunchFiles> files = launch_files(LaunchFormat::kAxolotl, plan, "1.0");
  if (!files) FAIL(to_text(files.errors()));
  for (const LaunchFile& f : files->files) {
    if (f.name == "axolotl.yaml") return f.text;
  }
  FAIL("no recipe");
  return {};
}

std::string errors_of(const std::string& keys) {
  const LaunchPlan plan = plan_of("llama-3.1-8b", "dgx-h100", 8, "framework=fsdp," + keys);
  const Result<LaunchFiles> files = launch_files(LaunchFormat::kAxolotl, plan, "1.0");
  REQUIRE_FALSE(files.ok());
  return to_text(files.errors());
}

}  // namespace

TEST_CASE("a plan comes back from the recipe that is written for axolotl") {
  const std::string keys =
      GENERATE("zero=0,packing=pack", "zero=3,micro_batch=2,recompute=full",
               "zero=2,packing=none,precision=fp16", "zero=3,zero_group=4,packing=pad",
               "zero=3,cp=4,cp_kind=allgather,packing=pack",
               "zero=3,cp=2,cp_kind=ring,packing=none", "zero=3,tp=2,precision=fp8",
               "zero=0,optimizer=paged_adam8bit,lora.rank=32,lora.dropout=0.05,"
               "lora.targets=[q_proj,k_proj,v_proj],lora.frozen_dtype=nf4,recompute=full",
               "zero=3,lora.rank=8,lora.targets=[all-linear],lora.frozen_dtype=int8",
               "zero=3,micro_batch=2,loss=dpo,packing=pad", "zero=3,optimizer=adam8bit",
               "zero=0,optimizer=adam8bit", "zero=3,kernels.fused_optimizer=false",
               "zero=3,offload.optimizer=true,offload.weights=true",
               "zero=0,lora.rank=8,lora.targets=[all-linear],lora.frozen_dtype=nf4,"
               "kernels.fused_lora=true",
               "zero=3,recompute=full,runtime.host_checkpoints=true,kernels.fused_norm=true,"
               "kernels.fused_rope=true,kernels.fused_activation=true,"
               "kernels.fused_linear_cross_entropy=true",
               "zero=0,kernels.fused_norm=true,kernels.fused_cross_entropy=true,"
               "kernels.inplace_cross_entropy=true");
  CAPTURE(keys);
  const LaunchPlan plan =
      plan_of("llama-3.1-8b", "dgx-h100", 8, "framework=fsdp,kernels.attention=flash2," + keys);
  check_comes_back(plan, recipe_of(plan), "axolotl.yaml");
}

TEST_CASE("attention that PyTorch chooses comes back from axolotl as that") {
  const LaunchPlan plan =
      plan_of("llama-3.1-8b", "dgx-h100", 8, "framework=fsdp,zero=3,packing=none");
  const std::string recipe = recipe_of(plan);
  CHECK(recipe.find("attn_implementation: sdpa") != std::string::npos);
  check_comes_back(plan, recipe, "axolotl.yaml");
}

TEST_CASE("the allocator is told by the environment") {
  const LaunchPlan plan = plan_of("llama-3.1-8b", "dgx-h100", 8,
                                  "framework=fsdp,zero=3,packing=none,"
                                  "runtime.expandable_segments=true");
  const Result<LaunchFiles> files = launch_files(LaunchFormat::kAxolotl, plan, "1.0");
  REQUIRE(files);
  const bool told = std::any_of(files->files.begin(), files->files.end(), [](const LaunchFile& f) {
    return f.text.find("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True") != std::string::npos;
  });
  CHECK(told);
}

TEST_CASE("what axolotl cannot be told is refused by name") {
  CHECK(errors_of("zero=1").find("FSDP shards gradients (zero=2) or weights too") !=
        std::string::npos);
  CHECK(errors_of("zero=3,cp=2,cp_kind=ring,packing=pack").find("cp_kind=allgather") !=
        std::string::npos);
  CHECK(errors_of("zero=3,cp=2,cp_kind=allgather,packing=pack,micro_batch=2")
            .find("takes micro_batch=1") != std::string::npos);
  CHECK(errors_of("zero=3,packing=balanced").find("packing=pack") != std::string::npos);
  CHECK(
      errors_of("zero=3,lora.rank=8").find("PEFT adapts projections one by one, not linear_qkv") !=
      std::string::npos);
  CHECK(errors_of("zero=3,micro_batch=2,loss=dpo").find("does not work with pairs") !=
        std::string::npos);
  CHECK(errors_of("zero=3,micro_batch=2,loss=dpo,packing=pad,lora.rank=8,lora.targets=[q_proj],"
                  "lora.frozen_dtype=nf4")
            .find("beside weights of 4 or 8 bits") != std::string::npos);
  CHECK(errors_of("zero=0,lora.rank=8,lora.targets=[all-linear],lora.frozen_dtype=nf4,"
                  "runtime.fp32_unquantised=true")
            .find("what is not quantised is of the training dtype") != std::string::npos);
  CHECK(errors_of("zero=0,lora.rank=8,lora.targets=[all-linear],lora.frozen_dtype=int8,"
                  "kernels.fused_lora=true")
            .find("take no weights in 8 bits") != std::string::npos);
  CHECK(errors_of("zero=3,tp=2,optimizer=adam8bit").find("no optimizer of 8 bits") !=
        std::string::npos);
  CHECK(errors_of("zero=3,precision=fp16,master_weights=false,optimizer_dtype=fp16,grad_dtype=fp16")
            .find("bf16: full") != std::string::npos);
  CHECK(errors_of("zero=3,packing=pack").find("kernels.attention=flash2") != std::string::npos);
  CHECK(errors_of("zero=3,recompute=selective").find("recomputes whole layers") !=
        std::string::npos);
}

TEST_CASE("the script of axolotl joins the plan with the recipe of its user") {
  const LaunchPlan plan =
      plan_of("llama-3.1-8b", "dgx-h100", 16, "framework=fsdp,zero=3,kernels.attention=flash2");
  const Result<LaunchFiles> files = launch_files(LaunchFormat::kAxolotl, plan, "1.0");
  REQUIRE(files.ok());
  const std::string& script = files->files.front().text;
  CHECK(script.find("torchrun --nnodes 2 --nproc-per-node 8") != std::string::npos);
  CHECK(script.find("-m axolotl.cli.train \"$config\"") != std::string::npos);
  CHECK(script.find("axolotl.yaml\" \"$RECIPE\" >\"$config\"") != std::string::npos);
}
