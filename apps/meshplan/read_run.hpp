#pragma once
// The files that start a run, of whichever framework.
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "inputs.hpp"
#include "launch/lint.hpp"

namespace meshplan {

// What lint reads; import reads recipes of fine-tuning (Target::kAccelerate) besides.
inline constexpr std::array kReadTargets{Target::kMegatron, Target::kDeepspeed,
                                         Target::kTorchtitan};

class LoadedRun {
 public:
  explicit LoadedRun(std::variant<MegatronRun, SettingsRun> run) : run_(std::move(run)) {}

  [[nodiscard]] const ImportedRun& run() const;
  [[nodiscard]] ImportedRun& run();
  [[nodiscard]] Diagnostics lint(const std::optional<ClusterSpec>& cluster,
                                 const std::string& file) const;

 private:
  std::variant<MegatronRun, SettingsRun> run_;
};

// What the files leave open, as flags state it; empty where they do not.
struct OpenFlags {
  std::string model, gpus, release, seq_len;
  std::string micro_batch, accumulation, global_batch;
  std::vector<std::string> set;  // NAME=VALUE of a script
  RestOfLine arguments;          // of a script
  bool lenient = false;
};
void add_open_flags(Subcommand& command, OpenFlags& flags);

// `target`: what the files are of; told from their text where it is not given.
[[nodiscard]] std::optional<LoadedRun> read_run(const std::vector<std::string>& files,
                                                std::optional<Target> target, const OpenFlags& open,
                                                Diagnostics& problems);

// The same of files that are read already; `beside`: the file in whose folder a script finds
// others.
[[nodiscard]] std::optional<LoadedRun> read_run_texts(const std::vector<NamedText>& texts,
                                                      std::optional<Target> target,
                                                      const OpenFlags& open,
                                                      const std::string& beside,
                                                      Diagnostics& problems);

}  // namespace meshplan
