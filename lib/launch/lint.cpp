#include "launch/lint.hpp"

#include <algorithm>
#include <array>

#include "launch/lint_report.hpp"

namespace meshplan {
namespace {

// Where a key of a strategy or model stands on Megatron-LM's command line.
constexpr std::array kOptions{
    KeySetting{"tp", "--tensor-model-parallel-size"},
    KeySetting{"pp", "--pipeline-model-parallel-size"},
    KeySetting{"vp", "--num-virtual-stages-per-pipeline-rank"},
    KeySetting{"vp", "--num-layers-per-virtual-pipeline-stage"},
    KeySetting{"cp", "--context-parallel-size"},
    KeySetting{"cp_kind", "--cp-comm-type"},
    KeySetting{"ep", "--expert-model-parallel-size"},
    KeySetting{"etp", "--expert-tensor-parallel-size"},
    KeySetting{"sequence_parallel", "--sequence-parallel"},
    KeySetting{"micro_batch", "--micro-batch-size"},
    KeySetting{"global_batch", "--global-batch-size"},
    KeySetting{"seq_len", "--seq-length"},
    KeySetting{"stage_layers", "--pipeline-model-parallel-layout"},
    KeySetting{"chunk_layers", "--pipeline-model-parallel-layout"},
    KeySetting{"stage_layers", "--decoder-first-pipeline-num-layers"},
    KeySetting{"recompute_layers", "--recompute-num-layers"},
    KeySetting{"recompute", "--recompute-granularity"},
    KeySetting{"zero", "--use-distributed-optimizer"},
    KeySetting{"overlap.param_gather", "--overlap-param-gather"},
    KeySetting{"order", "--use-tp-pp-dp-mapping"},
    KeySetting{"precision", "--fp8-format"},
    KeySetting{"activation", "--swiglu"},
};

class Linter {
 public:
  Linter(const MegatronRun& run, const std::optional<ClusterSpec>& cluster, const std::string& file)
      : run_(run),
        s_(run.strategy),
        m_(run.model),
        cluster_(cluster),
        report_(run, kOptions, file) {}

  Diagnostics run() {
    report_.take_rules(cluster_);
    ignored();
    environment();
    late();
    wasteful();
    return std::move(report_).all();
  }

 private:
  [[nodiscard]] const ProgramOption* option(std::string_view name) const {
    const auto found = run_.options_by_name.find(std::string(name));
    return found == run_.options_by_name.end() ? nullptr : &found->second;
  }
  [[nodiscard]] bool has(std::string_view name) const { return option(name) != nullptr; }

  void error(std::string_view at, std::string message, std::string hint = {}) {
    report_.error(at, std::move(message), std::move(hint));
  }
  void warning(std::string_view at, std::string message, std::string hint = {}) {
    report_.warning(at, std::move(message), std::move(hint));
  }

  // Options that Megatron-LM reads and does nothing with.
  void ignored() {
    if (has("--num-query-groups") && !has("--group-query-attention")) {
      error("--num-query-groups",
            "--num-query-groups is ignored without --group-query-attention: every head gets keys "
            "and values of its own",
            "add --group-query-attention");
    }
    if (has("--sequence-parallel") && s_.tp == 1) {
      warning("--sequence-parallel",
              "--sequence-parallel is switched off without tensor parallelism", "leave it out");
    }
    if (has("--use-mcore-models")) {
      warning("--use-mcore-models", "--use-mcore-models does nothing any more", "leave it out");
    }
    if (has("--recompute-num-layers") && s_.recompute == Recompute::kNone) {
      warning("--recompute-num-layers",
              "--recompute-num-layers does nothing without "
              "--recompute-granularity full");
    }
    if (has("--moe-router-topk") && !m_.moe) {
      warning("--moe-router-topk", "--moe-router-topk does nothing without --num-experts");
    }
    if (has("--multi-latent-attention") && !has("--kv-lora-rank")) {
      error("--multi-latent-attention",
            "without --kv-lora-rank latent attention compresses keys and values to 32 elements",
            "state --kv-lora-rank");
    }
    if (has("--overlap-param-gather") && s_.zero == 0) {
      error("--overlap-param-gather",
            "--overlap-param-gather needs --use-distributed-optimizer or FSDP",
            "add --use-distributed-optimizer");
    }
    if (has("--tp-comm-overlap") && !s_.sequence_parallel) {
      error("--tp-comm-overlap",
            "--tp-comm-overlap needs --sequence-parallel and tensor parallelism");
    }
  }

  // A:1477, A:1048, A:1166.
  void environment() {
    const auto found = run_.environment.find("CUDA_DEVICE_MAX_CONNECTIONS");
    const bool one = found != run_.environment.end() && found->second.text == "1";
    const bool sharded = has("--use-megatron-fsdp") || has("--use-torch-fsdp2");
    const bool blackwell = cluster_ && cluster_->device.architecture == Architecture::kBlackwell;
    if (sharded && one) {
      error("--use-megatron-fsdp", "FSDP refuses CUDA_DEVICE_MAX_CONNECTIONS=1", "do not set it");
    }
    const bool spread = s_.overlap.ep;  // wants more queues
    if (spread && one) {
      warning("--overlap-moe-expert-parallel-comm",
              "with CUDA_DEVICE_MAX_CONNECTIONS=1 nothing hides the exchange of tokens",
              "export CUDA_DEVICE_MAX_CONNECTIONS=32");
    }
    if (!sharded && !one && !spread && !blackwell && (s_.tp > 1 || s_.cp > 1)) {
      const std::string message =
          "tensor and context parallelism need CUDA_DEVICE_MAX_CONNECTIONS=1 before Blackwell";
      const std::string hint = "export CUDA_DEVICE_MAX_CONNECTIONS=1";
      const char* at = s_.tp > 1 ? "--tensor-model-parallel-size" : "--context-parallel-size";
      // It may be set outside of the script.
      found == run_.environment.end() ? warning(at, message, hint) : error(at, message, hint);
    }
    graphs_and_allocator();
  }

  // A:1961; core/transformer/cuda_graphs.py:2194: of Transformer Engine's graphs.
  void graphs_and_allocator() {
    const ProgramOption* impl = option("--cuda-graph-impl");
    const bool of_engine =
        has("--external-cuda-graph") || (impl != nullptr && !impl->values.empty() &&
                                         impl->values.front().text == "transformer_engine");
    if (!of_engine || !s_.runtime.expandable_segments) return;
    const auto found = run_.environment.find("NCCL_GRAPH_REGISTER");
    if (found != run_.environment.end() && found->second.text == "0") return;
    const std::string hint = "export NCCL_GRAPH_REGISTER=0";
    const std::string message =
        "CUDA graphs beside PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True are refused unless "
        "NCCL_GRAPH_REGISTER is 0";
    const char* at = "--cuda-graph-impl";
    found == run_.environment.end() ? warning(at, message, hint) : error(at, message, hint);
  }

  // What Megatron-LM finds only when training has begun, or never.
  void late() {
    if (m_.moe && m_.moe->top_k > m_.moe->num_experts) {
      error("--moe-router-topk", "--moe-router-topk is " + std::to_string(m_.moe->top_k) +
                                     ", but there are " + std::to_string(m_.moe->num_experts) +
                                     " experts");
    }
    if (m_.moe && s_.tp > 1 && !s_.sequence_parallel && !cluster_) {
      error(
          "--tensor-model-parallel-size",
          "experts with tensor parallelism need --sequence-parallel: the first forward pass stops");
    }
    const ProgramOption* each = option("--recompute-num-layers");
    if (each != nullptr && s_.recompute == Recompute::kFull && s_.recompute_layers.empty() &&
        !each->values.empty() && each->values.front().text != "1") {
      warning("--recompute-num-layers",
              "uniform recomputation in groups of " + each->values.front().text +
                  " layers holds the activations of a whole group; the estimate counts single "
                  "layers");
    }
  }

  void wasteful() {
    const std::int64_t copies = s_.dp * s_.cp;
    if (s_.zero == 0 && copies > 1) {
      warning("--bf16", std::to_string(copies) + " ranks hold the same optimizer states",
              "add --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather");
    } else if (!s_.overlap.grad_reduce && copies > 1) {
      warning("--use-distributed-optimizer", "gradients are reduced behind the backward pass",
              "add --overlap-grad-reduce");
    }
    if (s_.zero > 0 && copies > 1 && s_.overlap.grad_reduce && !s_.overlap.param_gather) {
      warning("--use-distributed-optimizer", "weights are gathered behind the optimizer's step",
              "add --overlap-param-gather");
    }
    if (s_.tp > 1 && !s_.sequence_parallel) {
      warning("--tensor-model-parallel-size",
              "every tensor rank keeps the activations between the split layers",
              "add --sequence-parallel");
    }
    report_.warn_of_spread_tensor_group("--tensor-model-parallel-size", cluster_);
    if (m_.moe && s_.ep > 1 && !has("--moe-token-dispatcher-type")) {
      warning("--expert-model-parallel-size",
              "tokens are gathered on every rank: --moe-token-dispatcher-type is allgather",
              "add --moe-token-dispatcher-type alltoall");
    }
    if (m_.moe && !has("--moe-grouped-gemm")) {
      warning("--num-experts", "experts are computed one after the other",
              "add --moe-grouped-gemm");
    }
  }

  const MegatronRun& run_;
  const Strategy& s_;
  const ModelSpec& m_;
  const std::optional<ClusterSpec>& cluster_;
  LintReport report_;
};

}  // namespace

Diagnostics lint(const MegatronRun& run, const std::optional<ClusterSpec>& cluster,
                 const std::string& file) {
  return Linter(run, cluster, file).run();
}

}  // namespace meshplan
