#include "fields.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <regex>

#include "words.hpp"

namespace meshplan::accuracy {
namespace {

using nlohmann::json;

const json& field(const json& object, const char* key) {
  static const json kNothing;
  if (!object.is_object()) return kNothing;
  const auto at = object.find(key);
  return at == object.end() ? kNothing : *at;
}

std::optional<double> number(const json& value) {
  if (!value.is_number()) return std::nullopt;
  const double x = value.get<double>();
  return std::isfinite(x) ? std::optional(x) : std::nullopt;
}

std::optional<std::int64_t> integer(const json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  const std::optional<double> x = number(value);
  if (x && *x == std::floor(*x) && std::abs(*x) < 1e15) return static_cast<std::int64_t>(*x);
  return std::nullopt;
}

// Counts below one are as good as not stated.
std::optional<std::int64_t> count(const json& value) {
  const std::optional<std::int64_t> n = integer(value);
  return n && *n >= 1 ? n : std::nullopt;
}

std::optional<bool> boolean(const json& value) {
  return value.is_boolean() ? std::optional(value.get<bool>()) : std::nullopt;
}

// Lists of sentences are joined, so that one search finds a word anywhere in them.
std::string text(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number()) return value.dump();
  std::string all;
  if (value.is_array()) {
    for (const json& item : value) {
      const std::string part = text(item);
      if (!part.empty()) all += (all.empty() ? "" : "; ") + part;
    }
  }
  return all;
}

std::optional<MoeSpec> moe_of(const json& moe) {
  const std::optional<std::int64_t> experts = count(field(moe, "num_experts"));
  if (!experts) return std::nullopt;
  MoeSpec spec;
  spec.num_experts = *experts;
  spec.top_k = count(field(moe, "top_k")).value_or(1);
  spec.expert_ffn_hidden_size = integer(field(moe, "moe_ffn_hidden_size")).value_or(0);
  spec.shared_expert_ffn_hidden_size =
      integer(field(moe, "shared_expert_ffn_hidden_size")).value_or(0);
  spec.first_dense = integer(field(moe, "num_dense_layers")).value_or(0);
  spec.latent_size = integer(field(moe, "latent_size")).value_or(0);
  return spec;
}

std::optional<MlaSpec> mla_of(const json& mla) {
  if (!mla.is_object()) return std::nullopt;
  MlaSpec spec;
  spec.q_lora_rank = integer(field(mla, "q_lora_rank")).value_or(0);
  spec.kv_lora_rank = integer(field(mla, "kv_lora_rank")).value_or(0);
  spec.qk_nope_head_dim = integer(field(mla, "qk_nope_head_dim")).value_or(0);
  spec.qk_rope_head_dim = integer(field(mla, "qk_rope_head_dim")).value_or(0);
  spec.v_head_dim = integer(field(mla, "v_head_dim")).value_or(0);
  return spec;
}

std::optional<Mamba2Spec> mamba_of(const json& mamba, std::int64_t hidden) {
  if (!mamba.is_object()) return std::nullopt;
  Mamba2Spec spec;
  spec.head_dim = count(field(mamba, "head_dim")).value_or(64);
  const std::int64_t inner = count(field(mamba, "expand")).value_or(2) * hidden;
  spec.num_heads = count(field(mamba, "num_heads")).value_or(inner / spec.head_dim);
  spec.state_size = count(field(mamba, "state")).value_or(128);
  spec.num_groups = count(field(mamba, "groups")).value_or(8);
  spec.conv_kernel = count(field(mamba, "conv_kernel")).value_or(4);
  return spec;
}

std::optional<GatedDeltaNetSpec> linear_attention_of(const json& linear) {
  if (!linear.is_object()) return std::nullopt;
  GatedDeltaNetSpec spec;
  spec.num_key_heads = count(field(linear, "num_key_heads")).value_or(0);
  spec.num_value_heads = count(field(linear, "num_value_heads")).value_or(spec.num_key_heads);
  spec.key_head_dim = count(field(linear, "key_head_dim")).value_or(0);
  spec.value_head_dim = count(field(linear, "value_head_dim")).value_or(spec.key_head_dim);
  spec.conv_kernel = count(field(linear, "conv_kernel")).value_or(4);
  return spec;
}

// DeepSeek-V4's: latent sizes of `mla`, the rest of `sparse_attention`.
void read_compressed(const json& m, PublishedModel& model) {
  const json& sparse = field(m, "sparse_attention");
  const json& ratios = field(sparse, "compress_ratios");
  if (!ratios.is_array()) return;
  const json& mla = field(m, "mla");
  CompressedAttentionSpec kind;
  kind.num_attention_heads = model.num_attention_heads.value_or(0);
  kind.head_dim = model.head_dim.value_or(0);
  kind.q_lora_rank = count(field(mla, "q_lora_rank")).value_or(0);
  kind.o_groups = count(field(mla, "o_groups")).value_or(1);
  kind.o_lora_rank = count(field(mla, "o_lora_rank")).value_or(0);
  kind.rotary_dim = count(field(mla, "qk_rope_head_dim")).value_or(64);
  kind.window = count(field(sparse, "window")).value_or(128);
  kind.index = {count(field(sparse, "index_heads")).value_or(0),
                count(field(sparse, "index_head_dim")).value_or(0),
                count(field(sparse, "index_topk")).value_or(0)};
  model.compressed = kind;
  for (const json& ratio : ratios) model.compress_ratios.push_back(integer(ratio).value_or(0));
}

PublishedModel model_of(const json& m) {
  PublishedModel model;
  model.name = text(field(m, "name"));
  model.num_layers = count(field(m, "num_layers"));
  model.hidden_size = count(field(m, "hidden_size"));
  model.num_attention_heads = count(field(m, "num_attention_heads"));
  model.num_query_groups = count(field(m, "num_query_groups"));
  model.head_dim = count(field(m, "head_dim"));
  model.ffn_hidden_size = count(field(m, "ffn_hidden_size"));
  model.vocab_size = count(field(m, "vocab_size"));
  model.seq_length = count(field(m, "seq_length"));
  model.mtp_layers = integer(field(m, "mtp_layers"));
  if (!model.mtp_layers) model.mtp_layers = integer(field(field(m, "mtp"), "depth"));
  model.gated = boolean(field(m, "gated"));
  model.tied_embeddings = boolean(field(m, "tied_embeddings"));
  model.casts_logits = boolean(field(m, "casts_logits")).value_or(true);
  model.linear_bias = boolean(field(m, "linear_bias"));
  model.activation = text(field(m, "activation"));
  model.normalization = text(field(m, "normalization"));
  model.position_embedding = text(field(m, "position_embedding"));
  model.moe = moe_of(field(m, "moe"));
  read_compressed(m, model);
  if (!model.compressed) model.mla = mla_of(field(m, "mla"));
  model.residual_streams = count(field(field(m, "hyper_connections"), "streams"));
  model.layer_pattern = text(field(m, "layer_pattern"));
  model.mamba = mamba_of(field(m, "mamba"), model.hidden_size.value_or(0));
  model.linear_attention = linear_attention_of(field(m, "linear_attention"));
  model.notes = text(field(m, "notes")) + "; " + text(field(m, "arch_from"));
  return model;
}

PerGpu per_gpu(const json& value) {
  PerGpu all;
  if (const std::optional<double> n = number(value)) all[""] = *n;
  if (value.is_object()) {
    for (const auto& [gpu, entry] : value.items()) {
      if (const std::optional<double> n = number(entry)) all[gpu] = *n;
    }
  }
  return all;
}

std::optional<double> dropout_of(const json& value) {
  if (const std::optional<double> rate = number(value)) return rate;
  if (value.is_boolean()) return value.get<bool>() ? 0.1 : 0.0;
  if (starts_with_word(text(value), "yes")) return 0.1;
  if (starts_with_word(text(value), "no")) return 0.0;
  return std::nullopt;
}

std::vector<std::string> texts(const json& value) {
  std::vector<std::string> all;
  if (!value.is_array()) return all;
  for (const json& item : value) all.push_back(text(item));
  return all;
}

std::optional<Seconds> step_time_of(const json& row) {
  for (const char* section : {"measured", "derived"}) {
    const std::optional<double> t = number(field(field(row, section), "step_time_s"));
    if (t && *t > 0) return Seconds{*t};
  }
  return std::nullopt;
}

// The largest over ranks where the source lists them.
std::optional<double> largest(const json& value) {
  if (!value.is_array()) return number(value);
  std::optional<double> most;
  for (const json& item : value) {
    const std::optional<double> n = number(item);
    if (n && (!most || *n > *most)) most = n;
  }
  return most;
}

}  // namespace

std::optional<MeasuredMemory> memory_of(const json& measured) {
  if (!measured.is_object()) return std::nullopt;
  const std::string about =
      text(field(measured, "memory_kind")) + " " + text(field(measured, "memory_unit"));
  for (const auto& [key, value] : measured.items()) {
    const bool peak = has_word(key, "memory") && (has_word(key, "peak") || has_word(key, "max"));
    // What fine-tuning's tables print: nvidia-smi's figure, or one like it.
    const bool used = key == "gpu_memory_gib" || key == "gpu_memory_gb";
    if (!peak && !used) continue;
    const std::optional<double> amount = largest(value);
    if (!amount || *amount <= 0) continue;
    // The tools behind every "GB" here divide by 1024^3 (nvidia-smi prints MiB, torch bytes).
    double unit = static_cast<double>(kGiB);
    if (has_word(key, "bytes")) unit = 1;
    if (has_word(key, "mib") || has_word(key, "mb")) unit = static_cast<double>(kMiB);
    MeasuredMemory memory{ceil_bytes(*amount * unit), MemoryKind::kAllocator};
    const std::string words = key + " " + about;
    const bool stated = has_word(words, "reserved") != has_word(words, "allocated");
    if (has_word(words, "nvidia") || (used && !stated)) {
      memory.kind = MemoryKind::kDevice;
    } else if (stated) {
      memory.kind = has_word(words, "reserved") ? MemoryKind::kReserved : MemoryKind::kAllocated;
    } else if (has_word(key, "gb_per_gpu") && about == " ") {
      continue;  // neither unit nor tool is stated
    }
    return memory;
  }
  return std::nullopt;
}

// The batch of a table of lengths, which states none, is one microbatch.
std::optional<LongestSequence> longest_of(const json& measured) {
  const std::optional<double> memory = number(field(measured, "gpu_memory_budget_gb"));
  if (!memory || *memory <= 0) return std::nullopt;
  return LongestSequence{integer(field(measured, "max_context_that_fits")).value_or(0),
                         ceil_bytes(*memory * static_cast<double>(kGiB))};
}

// Where a table leaves recomputation out and its recipe is quoted: lists recompute_modules "a/b".
void read_listed_modules(Run& run) {
  static const std::regex listed(R"re(lists recompute_modules "([a-z_/]+)")re"), slash("/");
  std::smatch match;
  const bool open = run.recompute.empty() && run.recompute_modules.empty();
  if (!open || !std::regex_search(run.recompute_detail, match, listed)) return;
  const std::string names = match[1];
  run.recompute = "selective";
  run.recompute_modules.assign(std::sregex_token_iterator(names.begin(), names.end(), slash, -1),
                               {});
}

Run run_of(const json& row) {
  Run run;
  run.id = text(field(row, "id"));
  run.gpu = text(field(row, "gpu"));
  run.model = model_of(field(row, "model"));
  run.gpus = count(field(row, "gpus"));
  run.tp = count(field(row, "tp"));
  run.pp = count(field(row, "pp"));
  run.vp = count(field(row, "vp"));
  run.cp = count(field(row, "cp"));
  run.ep = count(field(row, "ep"));
  run.dp = count(field(row, "dp"));
  run.zero_stage = integer(field(row, "zero_stage"));
  run.micro_batch = count(field(row, "micro_batch"));
  run.num_microbatches = count(field(row, "num_microbatches"));
  run.global_batch = count(field(row, "global_batch"));
  run.sequence_parallel = boolean(field(row, "sequence_parallel"));
  run.distributed_optimizer = boolean(field(row, "distributed_optimizer"));
  run.torch_compile = boolean(field(row, "torch_compile"));
  run.dropout = dropout_of(field(row, "dropout"));
  const json& fsdp = field(row, "fsdp");
  run.fsdp = boolean(fsdp) == false ? "" : text(fsdp);
  run.precision = text(field(row, "precision"));
  run.recompute = text(field(row, "recompute"));
  run.recompute_detail = text(field(row, "recompute_detail"));
  run.recompute_modules = texts(field(row, "recompute_modules"));
  read_listed_modules(run);
  // What stands in brackets says where it is known from, which may name others.
  const std::string schedule = text(field(row, "schedule"));
  const std::size_t bracket = std::min(schedule.find('('), schedule.size());
  run.schedule = schedule.substr(0, bracket), run.schedule_source = schedule.substr(bracket);
  run.attention_impl = text(field(row, "attention_impl"));
  run.optimizer = text(field(row, "optimizer"));
  const json& overlap = field(row, "overlap");
  run.overlap_tp = text(field(overlap, "tp"));
  run.overlap_dp = text(field(overlap, "dp"));
  run.overlap_pp = text(field(overlap, "pp_p2p"));
  run.overlap_ep = text(field(overlap, "ep_a2a"));
  run.dispatcher = text(field(row, "dispatcher"));
  run.layers_at_start_in_bf16 = count(field(row, "num_layers_at_start_in_bf16")).value_or(0);
  run.layers_at_end_in_bf16 = count(field(row, "num_layers_at_end_in_bf16")).value_or(0);
  run.task = text(field(row, "task"));
  const json& peft = field(row, "peft");
  run.lora_rank = count(field(peft, "rank"));
  run.lora_dropout = number(field(peft, "dropout"));
  run.frozen_precision = text(field(peft, "frozen_base_precision"));
  run.adapter_notes = text(field(peft, "note"));
  run.lora_targets = texts(field(peft, "targets"));
  run.packed = boolean(field(row, "packed")).value_or(false);
  const json& lengths = field(row, "lengths");
  run.lengths = text(lengths);
  run.length_mean = number(field(lengths, "tokens_mean"));
  run.length_deviation = number(field(lengths, "tokens_std"));
  run.drops_long = text(field(lengths, "longer_than_max_length")) == "dropped";
  const json& offload = field(row, "offload");
  for (const char* name : {"activation_checkpoints_to_cpu", "activation_offloading"}) {
    run.host_checkpoints |= boolean(field(offload, name)).value_or(false);
  }
  run.optimizer_on_host = boolean(field(offload, "optimizer_cpu_offload")).value_or(false);
  run.offload_modules = texts(field(offload, "modules"));
  run.cuda_graphs = text(field(row, "cuda_graphs"));
  if (overlap.is_string()) run.overlap_words = text(overlap);
  run.status = text(field(row, "status"));
  run.notes = text(field(row, "notes"));
  run.where = text(field(row, "where"));
  run.step_time = step_time_of(row);
  run.memory = memory_of(field(row, "measured"));
  run.longest = longest_of(field(row, "measured"));
  if (run.longest && !run.global_batch) run.global_batch = run.micro_batch;
  if (run.longest && !run.model.seq_length) run.model.seq_length = 1;
  return run;
}

Source head_of(const json& file) {
  Source source;
  const std::string use = text(field(file, "use"));
  if (use == "feasibility") source.use = Use::kFeasibility;
  if (use == "memory") source.use = Use::kMemory;
  if (use == "sanity") source.use = Use::kSanity;
  const json& about = field(file, "source");
  source.title = text(field(about, "title"));
  source.repo = text(field(about, "repo"));
  source.url = text(field(about, "url"));
  source.notes = text(field(about, "notes"));
  const json& hardware = field(file, "hardware");
  source.gpu = text(field(hardware, "gpu"));
  source.inter_node = text(field(hardware, "inter_node"));
  source.gpu_memory_gb = per_gpu(field(hardware, "gpu_memory_gb"));
  source.gpus_per_node = per_gpu(field(hardware, "gpus_per_node"));
  const json& rows = field(file, "rows");
  if (rows.is_array()) source.rows_without_fields = static_cast<std::int64_t>(rows.size());
  if (rows.is_number_integer()) source.rows_without_fields = rows.get<std::int64_t>();
  return source;
}

}  // namespace meshplan::accuracy
