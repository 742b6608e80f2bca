#pragma once
// Values of flags -> what the library works with. Problems are collected, so that one run reports
// all of them.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/text.hpp"
#include "command.hpp"
#include "frameworks/preset.hpp"
#include "io/load.hpp"
#include "spec/cluster.hpp"
#include "spec/kinds.hpp"
#include "spec/lora.hpp"
#include "spec/model.hpp"

namespace meshplan {

inline constexpr std::int64_t kMostPlans = 10'000;  // of one answer or file

// Of one run: GPUs, tokens of a sequence, sequences of a batch.
inline constexpr std::int64_t kMostGpus = 16'777'216, kMostTokens = 1'073'741'824,
                              kMostSequences = 1'000'000'000;

// Flags that plan and estimate share. Numbers stay text until inputs() reads them.
struct WorkloadFlags {
  std::string model, cluster, global_batch, tokens_per_batch, seq_len, gpus, framework;
  std::string task, lora_rank, frozen;
  std::string lengths, packing;
};
void add_workload_flags(Subcommand& command, WorkloadFlags& flags,
                        const std::string& gpus_help = "GPUs to use instead of the whole cluster");

struct WorkloadInputs {
  std::optional<ModelSpec> model;
  std::optional<ClusterSpec> cluster;                           // resized to --gpus
  std::int64_t global_batch = 0;                                // 0: not given
  std::int64_t seq_len = 0;                                     // 0: not given
  std::int64_t gpus = 0;                                        // 0: not given
  std::vector<std::int64_t> sizes;                              // to plan for; empty: one
  const Preset* preset = &newest_preset(Framework::kMegatron);  // of --framework
  FrozenParts frozen;                                           // of --frozen
  Lora lora;                                                    // of --task and --lora-rank
  Loss loss = Loss::kLm;                                        // of --task
  bool fine_tunes = false;                                      // what --task says
  Packing packing = Packing::kPack;                             // of --packing
};

// The linear layers that a framework's programs adapt unless told otherwise: Megatron-Bridge's LoRA
// its four, PEFT every one.
[[nodiscard]] LoraTargets usual_targets(Framework f);

// Everything that could be read; what is wrong is added to `problems`.
[[nodiscard]] WorkloadInputs read_workload(const WorkloadFlags& flags, Diagnostics& problems);

// Whether the flag names a cluster that ships with the program. Its size is the largest that was
// published of its kind, not one that the user has.
[[nodiscard]] bool is_shipped_cluster(const std::string& cluster);

// Says so where more GPUs are asked for than the file of the cluster describes.
void warn_of_size(const ClusterSpec& described, std::int64_t gpus);

// The cluster with that many GPUs; whole nodes, or part of one.
void resize(ClusterSpec& cluster, std::int64_t gpus, Diagnostics& problems);

void append(Diagnostics& all, const Diagnostics& more);

// The value of a result, or its diagnostics added to `problems`, those without a file as `flag`'s.
template <class T>
std::optional<T> take(Result<T> result, std::string_view flag, Diagnostics& problems) {
  if (result) return std::move(result).value();
  for (Diagnostic d : result.errors()) {
    if (d.where.file.empty()) d.where.file = std::string(flag);
    problems.push_back(std::move(d));
  }
  return std::nullopt;
}

// A diagnostic if the program was built without the page of the HTML report.
void check_page(Diagnostics& problems);

// A whole number from one to `most`; 0 where the flag was not given.
[[nodiscard]] std::int64_t read_count(const std::string& text, std::string_view flag,
                                      std::int64_t most, Diagnostics& problems);

// One of a table's names.
template <class Choices, class NameOf>
auto read_choice(const std::string& text, std::string_view flag, const Choices& choices,
                 const NameOf& name, Diagnostics& problems) {
  std::vector<std::string_view> names;
  for (const auto& choice : choices) {
    if (name(choice) == text) return choice;
    names.push_back(name(choice));
  }
  const std::optional<std::string> meant = nearest(text, names);
  const std::vector<std::string> all(names.begin(), names.end());
  problems.push_back(
      error_at({std::string(flag)}, "there is no '" + text + "'",
               meant ? "did you mean '" + *meant + "'?" : "one of " + join_words(all, " or ")));
  return choices.front();
}

template <class E>
E read_name(const std::string& text, std::string_view flag, Diagnostics& problems) {
  const auto& rows = NameTable<E>::rows;
  return read_choice(
             text, flag, rows, [](const NameRow<E>& row) { return row.name; }, problems)
      .value;
}

// The names of a table for help texts: "fp32, tf32, ...".
template <class E>
[[nodiscard]] std::string choices_text() {
  std::string text;
  for (const std::string_view name : names_of<E>())
    text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

}  // namespace meshplan
