// Which kernels a published run had, as its row words it.
#include "accuracy/made_up.hpp"
#include "attention_kernels.hpp"
#include "mapping.hpp"
#include "support/catch.hpp"
#include "words.hpp"

namespace meshplan::accuracy {
namespace {

Strategy first_strategy(const Source& source, const Run& run) {
  const auto mapped = map_run(source, run);
  REQUIRE(std::holds_alternative<Mapped>(mapped));
  return std::get<Mapped>(mapped).candidates.front().strategy;
}

}  // namespace

TEST_CASE("torchtitan's pages say the month of their runs, and the release of then counts") {
  Source source = source_called("torchtitan benchmark pages");
  Run run = complete_run();
  run.gpus = 8, run.tp = 1, run.pp = 1, run.dp = 8;
  run.notes = "torch.compile";
  const auto fused_loss = [&](const char* where) {
    run.where = where;
    return first_strategy(source, run).runtime.fused_cross_entropy;
  };
  CHECK_FALSE(fused_loss("benchmarks/llama3_h100_202412_torchtitan.md, Table 1"));
  CHECK(fused_loss("benchmarks/asynctp_256xh100_20250613_alice+bob.md"));
  CHECK(fused_loss("docs/performance.md"));  // the newest
}

TEST_CASE("runs of PyTorch's FSDP have the attention of the day that they state") {
  Run run = complete_run();
  run.gpus = 8, run.tp = 1, run.pp = 1, run.dp = 8, run.zero_stage = 3;
  run.attention_impl.clear();
  const auto attention = [&](const char* where) {
    run.where = where;
    return first_strategy(source_called("FSDP fine-tuning"), run).runtime.attention;
  };
  CHECK(attention("pull request 1, description (2026-08-21)") == AttentionKernel::kBest);
  CHECK(attention("pull request 1, description (2025-08-21)") == AttentionKernel::kFlash2);
  CHECK(attention("pull request 1, description (2023-08-21)") == AttentionKernel::kFlash2);
  CHECK(attention("a table") == AttentionKernel::kFlash2);
}

// setup.py and pytorch/attention.py of v0.10 and v1.1; 32db39288; NeMo-Framework-Launcher 04b8d098.
TEST_CASE("Transformer Engine runs the attention kernel of its day") {
  Run run = complete_run();
  run.attention_impl = "TransformerEngine fused/flash attention";
  const auto attention = [&](const char* title, const char* notes, const char* where) {
    run.notes = notes, run.where = where;
    return attention_kernel_of(source_called(title), run);
  };
  const auto mlperf = [&](const char* notes, const char* where) {
    return attention("MLPerf Training v3.0-v5.1", notes, where);
  };
  CHECK(mlperf("framework NVIDIA NeMo Megatron Release 23.04", "") == AttentionKernel::kFlash1);
  CHECK(mlperf("", "mlcommons/training_results_v3.0 NVIDIA") == AttentionKernel::kFlash1);
  CHECK(mlperf("", "results/eos_n96_ngc23.09_nemo/gpt3") == AttentionKernel::kFlash2);
  CHECK(mlperf("", "mlcommons/training_results_v3.1 Azure") == AttentionKernel::kFlash2);
  CHECK_FALSE(mlperf("framework PyTorch NVIDIA Release 24.04", ""));  // cuDNN's
  CHECK_FALSE(mlperf("", "a table"));
  // Rounds by their numbers, whichever they are.
  CHECK(software_date(source_called("MLPerf"), run) == 0);
  run.notes.clear(), run.where = "mlcommons/training_results_v4.1 Dell";
  CHECK(software_date(source_called("MLPerf"), run) == 2409);
  run.where = "mlcommons/training_results_v2.0 Azure";
  CHECK(software_date(source_called("MLPerf"), run) == 2204);
  // NeMo's launcher keeps cuDNN's off for half a year.
  CHECK(attention("NeMo tables, releases 24.03/24.05/24.07", "", "") == AttentionKernel::kFlash2);
  CHECK_FALSE(attention("NeMo tables, release 24.09", "", ""));
  // What the row says goes before any date.
  run.attention_impl = "cuDNN fused attention, FP8 (FP8_DPA=1)";
  CHECK_FALSE(mlperf("framework NGC 23.09", "ngc23.09"));
  run.attention_impl = "TransformerEngine, FlashAttention-2";
  CHECK(mlperf("Release 23.04", "") == AttentionKernel::kFlash2);
}

TEST_CASE("MLPerf's adapters exchange their outputs, others' gather them") {
  Run run = complete_run();
  run.task = "lora";
  CHECK(first_strategy(source_called("MLPerf Training LoRA"), run).lora.all_to_all);
  CHECK_FALSE(first_strategy(source_called("NeMo fine-tuning"), run).lora.all_to_all);
}

TEST_CASE("MLPerf's rows say what is in 8 bits, and that an iteration is one graph") {
  const Source mlperf = source_called("MLPerf Training LoRA");
  Run run = complete_run();
  run.precision = "fp8";
  run.attention_impl = "cuDNN fused attention, FP8 (FP8_DPA=1)";
  run.notes = "SwiGLU input stored in FP8 (activation_func_fp8_input_store); 8x ConnectX-7";
  Strategy s = first_strategy(mlperf, run);
  CHECK(s.runtime.fp8_attention);
  CHECK(s.runtime.activation_func_fp8_input_store);
  CHECK(s.runtime.cuda_graph == CudaGraph::kNone);
  run.precision = "bf16";  // attention is in 8 bits only where products are
  run.notes = "framework NeMo 25.09; CUDA graph: FULL_CUDA_GRAPH,MCORE_CUDA_GRAPH";
  s = first_strategy(mlperf, run);
  CHECK_FALSE(s.runtime.fp8_attention);
  CHECK_FALSE(s.runtime.activation_func_fp8_input_store);
  CHECK(s.runtime.cuda_graph == CudaGraph::kFullIteration);
  run.attention_impl = "cuDNN fused attention, bf16", run.precision = "fp8";
  CHECK_FALSE(first_strategy(mlperf, run).runtime.fp8_attention);
}

TEST_CASE("SimuMax's runs of Megatron-LM exchange heads and have Transformer Engine's loss") {
  Source source = source_called("SimuMax");
  source.repo = "MooreThreads/SimuMax docs/b200";
  Run run = complete_run();
  run.gpus = 8, run.tp = 1, run.pp = 1, run.cp = 2, run.dp = 4;
  const Strategy s = first_strategy(source, run);
  CHECK(s.cp_kind == CpKind::kUlysses);
  CHECK(s.runtime.inplace_cross_entropy);
  run.cp = 1, run.dp = 8;
  CHECK(first_strategy(source, run).cp_kind == CpKind::kRing);
}

TEST_CASE("compilation is read from the words of a row, and of torchtitan's from those beside it") {
  Source source = source_called("torchtitan");
  Run plain = complete_run();
  Run compiled = plain;
  compiled.notes = "FSDP + torch.compile";
  Run eager = plain;
  eager.attention_impl = "SDPA, without torch.compile";
  CHECK_FALSE(stated_compilation(plain).has_value());
  CHECK(stated_compilation(compiled) == true);
  CHECK(stated_compilation(eager) == false);
  Run stated = plain;
  stated.torch_compile = true;
  CHECK(stated_compilation(stated) == true);
  const auto fused = [&](const Run& run) {
    const auto mapped = map_run(source, run);
    REQUIRE(std::holds_alternative<Mapped>(mapped));
    const Runtime& kernels = std::get<Mapped>(mapped).candidates.front().strategy.runtime;
    CHECK(kernels.fused_cross_entropy == kernels.fused_norm);  // the loss is compiled too
    return kernels.fused_norm;
  };
  CHECK(fused(plain));  // the preset: nobody says
  source.runs = {plain, compiled};
  CHECK_FALSE(fused(plain));
  CHECK(fused(compiled));
  CHECK_FALSE(fused(eager));
}

TEST_CASE("modules of Transformer Engine below other code bring its kernels") {
  const auto runtime = [](const std::string& title, const std::string& kernels) {
    Run run = complete_run();
    run.attention_impl = kernels;
    run.tp = run.pp = 1, run.dp = 16, run.zero_stage = 3;
    const auto mapped = map_run(source_called(title), run);
    REQUIRE(std::holds_alternative<Mapped>(mapped));
    return std::get<Mapped>(mapped).candidates.front().strategy.runtime;
  };
  CHECK(runtime("NeMo AutoModel", "TE + triton").fused_norm);
  CHECK(runtime("NeMo AutoModel", "TE").attention == AttentionKernel::kBest);
  CHECK_FALSE(runtime("NeMo AutoModel", "SDPA attention").fused_norm);
  CHECK(runtime("NeMo AutoModel", "SDPA attention").attention == AttentionKernel::kFlash2);
}

TEST_CASE("AWS's pods give the device one queue, which matters where dispatch is overlapped") {
  Run run = complete_run();
  run.pp = 1, run.dp = 8, run.ep = 8;
  run.overlap_ep = "overlap_moe_expert_parallel_comm (1F1B)";
  const Source aws = source_called("awsome-distributed-ai: dispatchers");
  CHECK(first_strategy(aws, run).runtime.single_device_connection);
  CHECK_FALSE(first_strategy(source_called("Megatron-LM"), run).runtime.single_device_connection);
  run.overlap_ep = "false";
  CHECK_FALSE(first_strategy(aws, run).runtime.single_device_connection);
}

}  // namespace meshplan::accuracy
