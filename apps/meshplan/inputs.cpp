#include "inputs.hpp"

#include <array>
#include <optional>
#include <sstream>
#include <string>

#include "base/quantity.hpp"
#include "frameworks/preset.hpp"
#include "io/lengths_file.hpp"
#include "log.hpp"
#include "model/parameters.hpp"
#include "model/rules.hpp"
#include "report/html.hpp"
#include "token_counts.hpp"

namespace meshplan {
namespace {

// Far beyond any training run; products of them still fit 64 bits.
constexpr std::int64_t kMostBatchTokens = 1'000'000'000'000;

// A flag's text, or a diagnostic that it is missing.
bool is_given(const std::string& text, std::string_view flag, const std::string& way_out,
              Diagnostics& problems) {
  if (!text.empty()) return true;
  problems.push_back(error(std::string(flag) + " is missing", way_out));
  return false;
}

// Sequences of a step; 0 where none are given.
std::int64_t read_batch(const WorkloadFlags& flags, std::int64_t seq_len, Diagnostics& problems) {
  if (!flags.tokens_per_batch.empty()) {
    if (!flags.global_batch.empty()) {
      problems.push_back(
          error("--tokens-per-batch and --global-batch say the same", "give one of them"));
    }
    constexpr std::string_view kFlag = "--tokens-per-batch";
    const WrittenCount n =
        read_written_count(flags.tokens_per_batch, kFlag, kMostBatchTokens, problems);
    return sequences_of(n.value, seq_len, kFlag, problems);
  }
  constexpr std::string_view kFlag = "--global-batch";
  const WrittenCount n = read_written_count(flags.global_batch, kFlag, kMostSequences, problems);
  return n.tokens ? sequences_of(n.value, seq_len, kFlag, problems) : n.value;
}

}  // namespace

bool is_shipped_cluster(const std::string& cluster) {
  return cluster.find('/') == std::string::npos &&
         !DataFolders::standard().find(kClusterFolder, cluster).empty();
}

void warn_of_size(const ClusterSpec& described, std::int64_t gpus) {
  if (gpus <= num_gpus(described)) return;
  log_warning(with_thousands(gpus) + " GPUs are more than the " +
              with_thousands(num_gpus(described)) + " that " + described.name +
              " describes: its outermost level is taken to reach all of them");
}

void resize(ClusterSpec& cluster, std::int64_t gpus, Diagnostics& problems) {
  const std::int64_t per_node = cluster.gpus_per_node;
  if (gpus > per_node && gpus % per_node != 0) {
    const std::int64_t below = gpus / per_node * per_node;
    problems.push_back(
        error_at({"--gpus"},
                 std::to_string(gpus) + " GPUs are not whole nodes: " + cluster.name + " has " +
                     std::to_string(per_node) + " GPUs per node",
                 "use " + std::to_string(below) + " or " + std::to_string(below + per_node)));
    return;
  }
  cluster = with_gpus(std::move(cluster), gpus);
  for (Diagnostic d : validate(cluster)) {
    d.where.file = "--gpus";
    problems.push_back(std::move(d));
  }
}

void append(Diagnostics& all, const Diagnostics& more) {
  all.insert(all.end(), more.begin(), more.end());
}

namespace {

void add_lengths_flags(Subcommand& command, WorkloadFlags& flags) {
  command.add_value("--lengths", flags.lengths, "FILE|DIST",
                    "Lengths of the documents in tokens, a file of them ('meshplan import lengths' "
                    "makes one) or zipf(1.2, 8192), lognormal(MEAN, SD), fixed(N); without it, or "
                    "with 'fixed', every sequence is full");
  command.add_value("--packing", flags.packing, "NAME",
                    "With --lengths: none (a document a row, padded to the longest of its "
                    "microbatch), pad (to --seq-len), pack (as many documents as fit a row, the "
                    "default) or balanced (packed, and rows dealt out so that ranks work alike)");
}

void read_documents(const WorkloadFlags& flags, WorkloadInputs& in, Diagnostics& problems) {
  const bool full = flags.lengths.empty() || flags.lengths == "fixed";
  if (!flags.packing.empty()) {
    in.packing = read_name<Packing>(flags.packing, "--packing", problems);
    if (full) {
      problems.push_back(
          error("--packing needs --lengths",
                "every sequence is full where no lengths are known: there is nothing "
                "to pack or to pad"));
    }
  }
  if (full) return;
  const std::optional<LengthSpec> lengths =
      take(load_lengths(flags.lengths), "--lengths", problems);
  if (!in.model || !lengths) return;
  in.model->lengths = lengths;
  for (Diagnostic d : validate(*in.model)) {
    if (d.where.file.empty()) d.where.file = "--lengths";
    problems.push_back(std::move(d));
  }
}

}  // namespace

void add_workload_flags(Subcommand& command, WorkloadFlags& flags, const std::string& gpus_help) {
  command.add_value(
      "--model", flags.model, "NAME|FILE",
      "Model: a shipped name, a model file, or a Hugging Face config.json (required)");
  command.add_value("--cluster", flags.cluster, "NAME|FILE",
                    "Cluster: a shipped name or a cluster file (required)");
  command.add_value("--global-batch", flags.global_batch, "N",
                    "Sequences per step; or tokens, as in '4M tokens' or 4M");
  command.add_value("--tokens-per-batch", flags.tokens_per_batch, "N",
                    "Instead: tokens per step, for example 4M (4,194,304)");
  command.add_value("--seq-len", flags.seq_len, "N", "Tokens per sequence, for example 8192 or 8k");
  command.add_value("--gpus", flags.gpus, "N", gpus_help);
  command.add_value("--framework", flags.framework, "NAME",
                    "Preset of overlaps, data types and kernels (default megatron): "
                    "megatron, megatron-deepspeed, deepspeed, fsdp, torchtitan, or another that "
                    "'meshplan list frameworks' shows");
  command.add_value(
      "--task", flags.task, "NAME",
      "What is trained: all weights (pretrain, the default, or sft), low-rank adapters "
      "beside frozen weights (lora), or the same with the frozen weights in nf4 (qlora, "
      "with --framework fsdp unless another is given); dpo: pairs of answers beside a "
      "reference model (fsdp too), whose batches count answers; with --lora-rank adapters");
  command.add_value("--lora-rank", flags.lora_rank, "N",
                    "Rank of the adapters (default 16) of every linear layer; keys 'lora.*' of a "
                    "strategy say more");
  command.add_value("--frozen", flags.frozen, "PARTS",
                    "Parts of a model with a vision encoder that are not trained, of "
                    "vision_model, vision_projection and language_model, with commas between");
  add_lengths_flags(command, flags);
}

void check_page(Diagnostics& problems) {
  if (has_page()) return;
  problems.push_back(error_at({"--html"}, "this program was built without the HTML report",
                              "install nodejs (18 or later) and npm, and build it again"));
}

std::int64_t read_count(const std::string& text, std::string_view flag, std::int64_t most,
                        Diagnostics& problems) {
  if (text.empty()) return 0;
  const std::optional<std::int64_t> value = take(parse_integer(text), flag, problems);
  if (!value) return 0;
  if (*value >= 1 && *value <= most) return *value;
  problems.push_back(
      error_at({std::string(flag)}, "must be from 1 to " + with_thousands(most) + ", got " + text));
  return 0;
}

namespace {

// Numbers that nobody stated: said once for all of them.
void warn_of_usual(const DeviceSpec& d) {
  std::vector<std::string> keys;
  for (const auto& [key, source] : d.sources) {
    if (source.starts_with(kUsualSource)) keys.push_back(key);
  }
  if (keys.empty()) return;
  log_warning("device " + d.name + ": its file leaves out " + join_words(keys, ", ") +
              ": what is "
              "usual for " +
              std::string(name_of(d.architecture)) + " is taken; 'meshplan bench' measures them");
}

enum class Task { kPretrain, kSft, kLora, kQlora, kDpo };
struct TaskRow {
  Task task;
  std::string_view name;
};
constexpr std::array kTasks{TaskRow{Task::kPretrain, "pretrain"}, TaskRow{Task::kSft, "sft"},
                            TaskRow{Task::kLora, "lora"}, TaskRow{Task::kQlora, "qlora"},
                            TaskRow{Task::kDpo, "dpo"}};

void read_frozen(const WorkloadFlags& flags, WorkloadInputs& in, Diagnostics& problems) {
  std::istringstream list(flags.frozen);
  for (std::string name; std::getline(list, name, ',');) {
    const std::optional<FrozenPart> part = from_name<FrozenPart>(name);
    if (part) {
      in.frozen.add(*part);
    } else {
      problems.push_back(error_at({"--frozen"}, "there is no part '" + name + "'",
                                  "vision_model, vision_projection or language_model"));
    }
  }
}

// PEFT, whose frozen weights may be nf4, is a program of FSDP's; Megatron-Bridge's adapters are of
// its four linear layers, PEFT's of single projections.
void read_task(const WorkloadFlags& flags, WorkloadInputs& in, Diagnostics& problems) {
  const std::int64_t rank = read_count(flags.lora_rank, "--lora-rank", 65'536, problems);
  Task task = rank > 0 ? Task::kLora : Task::kPretrain;
  if (!flags.task.empty()) {
    task = read_choice(
               flags.task, "--task", kTasks, [](const TaskRow& row) { return row.name; }, problems)
               .task;
  }
  in.fine_tunes = task != Task::kPretrain;
  if (task == Task::kDpo) in.loss = Loss::kDpo;
  const bool own_program = task == Task::kQlora || task == Task::kDpo;
  if (own_program && flags.framework.empty()) in.preset = &newest_preset(Framework::kFsdp);
  const bool adapts =
      task == Task::kLora || task == Task::kQlora || (task == Task::kDpo && rank > 0);
  if (rank > 0 && !adapts) {
    problems.push_back(error_at(
        {"--lora-rank"}, "--task " + flags.task + " trains all weights: there are no adapters",
        "--task lora"));
  }
  if (!adapts) return;
  in.lora.rank = rank > 0 ? rank : 16;
  if (task == Task::kQlora) {
    in.lora.frozen_dtype = FrozenDtype::kNf4;
  }
  in.lora.targets = usual_targets(in.preset->framework());
}

}  // namespace

LoraTargets usual_targets(Framework f) {
  return f == Framework::kMegatron ? kDefaultLoraTargets : lora_targets("all-linear");
}

WorkloadInputs read_workload(const WorkloadFlags& flags, Diagnostics& problems) {
  WorkloadInputs in;
  const DataFolders data = DataFolders::standard();
  if (is_given(flags.model, "--model", "'meshplan list models' shows the shipped models",
               problems)) {
    in.model = take(load_model(flags.model, data), "--model", problems);
  }
  if (is_given(flags.cluster, "--cluster", "'meshplan list clusters' shows the shipped clusters",
               problems)) {
    in.cluster = take(load_cluster(flags.cluster, data), "--cluster", problems);
  }
  if (in.cluster) warn_of_usual(in.cluster->device);
  in.seq_len = read_written_count(flags.seq_len, "--seq-len", kMostTokens, problems).value;
  in.global_batch = read_batch(flags, in.seq_len, problems);
  in.gpus = read_count(flags.gpus, "--gpus", kMostGpus, problems);
  if (!flags.framework.empty()) {
    in.preset = take(find_preset(flags.framework), "--framework", problems).value_or(in.preset);
  }
  read_task(flags, in, problems);
  read_frozen(flags, in, problems);
  read_documents(flags, in, problems);
  if (in.cluster && in.gpus > 0) {
    const ClusterSpec described = *in.cluster;
    resize(*in.cluster, in.gpus, problems);
    if (!has_errors(problems)) warn_of_size(described, in.gpus);
  }
  if (in.model)
    log_debug("model " + in.model->name + ": " + with_thousands(parameter_count(*in.model).total) +
              " parameters");
  if (in.cluster)
    log_debug("cluster " + in.cluster->name + ": " + with_thousands(num_gpus(*in.cluster)) +
              " GPUs");
  return in;
}

}  // namespace meshplan
