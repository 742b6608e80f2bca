#pragma once
// One published training run as its source states it. An absent optional or an empty text means
// that the source does not say.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "spec/model.hpp"

namespace meshplan::accuracy {

struct PublishedModel {
  std::string name;
  std::optional<std::int64_t> num_layers, hidden_size, num_attention_heads, num_query_groups;
  std::optional<std::int64_t> head_dim, ffn_hidden_size, vocab_size, seq_length, mtp_layers;
  std::optional<bool> gated, tied_embeddings, linear_bias;
  bool casts_logits =
      true;  // to fp32, as Llama's code does; else autocast casts a copy for the loss
  std::string activation, normalization, position_embedding;
  std::optional<MoeSpec> moe;
  std::optional<MlaSpec> mla;
  std::string layer_pattern;  // of a hybrid, as Megatron-LM writes it; L: linear attention
  std::optional<Mamba2Spec> mamba;
  std::optional<GatedDeltaNetSpec> linear_attention;
  // Of compressed attention: what all layers share, and each layer's ratio.
  std::optional<CompressedAttentionSpec> compressed;
  std::vector<std::int64_t> compress_ratios;
  std::optional<std::int64_t> residual_streams;
  std::string notes;  // `notes` and `arch_from` of the model

  bool operator==(const PublishedModel&) const = default;
};

// What the tool that measured counts. The allocator's peak may be of handed-out or of held bytes.
enum class MemoryKind {
  kDevice,     // nvidia-smi: context and communicators included
  kAllocator,  // PyTorch's allocator, the source does not say which of the two below
  kReserved,   // held by the allocator
  kAllocated,  // handed out by the allocator
};

struct MeasuredMemory {
  Bytes peak;
  MemoryKind kind = MemoryKind::kAllocator;

  bool operator==(const MeasuredMemory&) const = default;
};

// The longest sequence that trained on a device of so much memory; 0: none did.
struct LongestSequence {
  std::int64_t tokens = 0;
  Bytes memory;

  bool operator==(const LongestSequence&) const = default;
};

struct Run {
  std::string id;
  std::string gpu;
  PublishedModel model;
  std::optional<std::int64_t> gpus, tp, pp, vp, cp, ep, dp;
  std::optional<std::int64_t> zero_stage, micro_batch, num_microbatches, global_batch;
  std::optional<bool> sequence_parallel, distributed_optimizer, torch_compile;
  std::optional<double> dropout;  // "yes" reads as 0.1, the default of Megatron-LM
  std::string fsdp, precision, recompute, recompute_detail, attention_impl, optimizer;
  std::string schedule, schedule_source;       // and, in brackets behind it, where it is known from
  std::vector<std::string> recompute_modules;  // as Megatron-Core names them
  std::string overlap_tp, overlap_dp, overlap_pp;  // "true", "false" or the source's words
  // Adapters beside frozen weights; rank absent or 0: all weights are trained.
  std::string task;  // pretrain, sft, lora, qlora
  std::optional<std::int64_t> lora_rank;
  std::vector<std::string> lora_targets;
  std::optional<double> lora_dropout;
  std::string frozen_precision, adapter_notes;
  bool packed = false;                                  // rows of several documents
  std::string lengths;                                  // what the row says of the documents
  std::optional<double> length_mean, length_deviation;  // of rows that are as long as a document
  bool drops_long = false;        // documents longer than seq_len are left out, not cut off
  bool host_checkpoints = false;  // inputs of recomputed layers are moved to the host
  bool optimizer_on_host = false;
  std::vector<std::string> offload_modules;  // whose saved inputs are, as Megatron-Core names them
  std::string cuda_graphs;
  std::string overlap_words;           // what the row says of overlap in one text
  std::string dispatcher, overlap_ep;  // of experts' tokens: the source's words; "true", "false"
  // First and last layers in bf16 where the others are in fp8 or nvfp4.
  std::int64_t layers_at_start_in_bf16 = 0, layers_at_end_in_bf16 = 0;
  std::string status, notes, where;
  std::optional<Seconds> step_time;
  std::optional<MeasuredMemory> memory;
  std::optional<LongestSequence> longest;

  bool operator==(const Run&) const = default;
};

// A number stated once for all GPUs of a source (empty key), or per GPU name.
using PerGpu = std::map<std::string, double>;

enum class Use {
  kScore,
  kFeasibility,
  kMemory,  // step times are not stated, or of samples of unknown lengths
  kSanity,
};

// One file of runs.
struct Source {
  std::string name;       // file stem
  Use use = Use::kScore;  // of a file that does not say, too
  std::string title, repo, url, notes;
  std::string gpu, inter_node;  // of the hardware section
  PerGpu gpu_memory_gb, gpus_per_node;
  std::vector<Run> runs;
  std::int64_t rows_without_fields = 0;  // listed in a form other than `runs`

  bool operator==(const Source&) const = default;
};

}  // namespace meshplan::accuracy
