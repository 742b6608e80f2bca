// What is said of a launch script beside what it means.
#include "launch/lint.hpp"

#include "launch/megatron_import.hpp"
#include "launch/plans.hpp"

namespace meshplan {
namespace {

constexpr const char* kRun =
    "WORLD_SIZE=16\nCUDA_DEVICE_MAX_CONNECTIONS=1\n"
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads 32 --swiglu "
    "--disable-bias-linear --normalization RMSNorm --position-embedding-type rope "
    "--seq-length 4096 --max-position-embeddings 4096 --vocab-size 32000 "
    "--untie-embeddings-and-output-weights --tensor-model-parallel-size 2 --sequence-parallel "
    "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --bf16 "
    "--micro-batch-size 1 --global-batch-size 64\n";

std::string linted(std::string text, const std::string& from, const std::string& to) {
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  const Result<MegatronRun> run = read_megatron_run(text, "a.sh");
  REQUIRE(run.ok());
  return to_text(lint(*run, test::shipped_cluster("dgx-h100", 16), "a.sh"));
}

}  // namespace

TEST_CASE("a script's environment tells of the allocator") {
  const auto expandable = [](const std::string& first) {
    const Result<MegatronRun> run = read_megatron_run(first + kRun, "a.sh");
    REQUIRE(run.ok());
    return run->strategy.runtime.expandable_segments;
  };
  CHECK_FALSE(expandable(""));
  CHECK(expandable("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"));
  CHECK(expandable("export PYTORCH_ALLOC_CONF=expandable_segments:True,max_split_size_mb:512\n"));
  CHECK_FALSE(expandable("export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512\n"));
}

TEST_CASE("a sound run has nothing to be said of it") { CHECK(linted(kRun, "", "").empty()); }

TEST_CASE("what Megatron-LM refuses, ignores or wastes is named") {
  struct Row {
    const char* from;
    const char* to;
    const char* message;
  };
  const auto row = GENERATE(values<Row>({
      {"--bf16", "--bf16 --num-query-groups 8", "error: --num-query-groups is ignored"},
      {"--tensor-model-parallel-size 2", "--tensor-model-parallel-size 1",
       "warning: --sequence-parallel is switched off"},
      {"--bf16", "--bf16 --use-mcore-models", "warning: --use-mcore-models does nothing"},
      {"--bf16", "--bf16 --recompute-num-layers 4", "warning: --recompute-num-layers does nothing"},
      {"CUDA_DEVICE_MAX_CONNECTIONS=1", "CUDA_DEVICE_MAX_CONNECTIONS=8",
       "error: tensor and context parallelism need"},
      {"CUDA_DEVICE_MAX_CONNECTIONS=1\n", "", "warning: tensor and context parallelism need"},
      {"--use-distributed-optimizer", "--use-megatron-fsdp", "error: FSDP refuses"},
      {"--global-batch-size 64", "--global-batch-size 63", "error: 'global_batch' must be"},
      {"--num-attention-heads 32", "--num-attention-heads 31 --kv-channels 128",
       "error: 'tp' must divide the 31 attention heads"},
      {"--sequence-parallel", "--tp-comm-overlap", "error: --tp-comm-overlap needs"},
      {"--sequence-parallel", "", "add --sequence-parallel"},
      {"--overlap-param-gather", "", "add --overlap-param-gather"},
      {"--use-distributed-optimizer", "", "error: --overlap-param-gather needs"},
      {"--bf16",
       "--bf16 --num-experts 8 --expert-model-parallel-size 2 --expert-tensor-parallel-size 1 "
       "--moe-token-dispatcher-type alltoall --overlap-moe-expert-parallel-comm",
       "warning: with CUDA_DEVICE_MAX_CONNECTIONS=1 nothing hides the exchange of tokens"},
      {"CONNECTIONS=1\n",
       "CONNECTIONS=1\nPYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\nNCCL_GRAPH_REGISTER=1\n"
       "--cuda-graph-impl transformer_engine ",
       "error: CUDA graphs beside PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True are refused"},
      {"CONNECTIONS=1\n",
       "CONNECTIONS=1\nPYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"
       "--cuda-graph-impl transformer_engine ",
       "warning: CUDA graphs beside"},
      {"--bf16", "--bf16 --num-experts 2 --moe-router-topk 4", "there are 2 experts"},
      {"--bf16", "--bf16 --num-experts 8 --expert-model-parallel-size 4",
       "--moe-token-dispatcher-type is allgather"},
  }));
  INFO(row.to);
  CHECK(linted(kRun, row.from, row.to).find(row.message) != std::string::npos);
}

TEST_CASE("graphs of Megatron-Core's own are not refused beside segments that grow") {
  const std::string text =
      linted(kRun, "CONNECTIONS=1\n",
             "CONNECTIONS=1\nPYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"
             "--cuda-graph-impl local ");
  CHECK(text.find("NCCL_GRAPH_REGISTER") == std::string::npos);
}

}  // namespace meshplan
