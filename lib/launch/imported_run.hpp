#pragma once
// What a launch file says: the way back from an export, and into the program for runs that people
// already have.
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.hpp"
#include "frameworks/target.hpp"
#include "launch/option_table.hpp"
#include "launch/shell_words.hpp"
#include "spec/findings.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// What the rules of lib/spec accept. Numbers of launch files are held against it where they are
// read: they are multiplied and divided long before the rules are asked.
inline constexpr IntegerRange kRanks{1, 1 << 24};
inline constexpr IntegerRange kStages{1, 100'000};
inline constexpr IntegerRange kSequences{1, 1'000'000'000};
inline constexpr IntegerRange kTokens{1, 1 << 30};

// "'tp' must be 1 or more, got 0", where `name` is "'tp'"; nothing for a value in its range.
[[nodiscard]] std::optional<std::string> out_of_range(const std::string& name, std::int64_t value,
                                                      IntegerRange range);

// Product of numbers that are not negative; the largest number where it is larger still.
[[nodiscard]] std::int64_t bounded_product(std::initializer_list<std::int64_t> factors);

// A file that was given, by the name that diagnostics use.
struct NamedText {
  std::string name, text;
};

// Where a setting stands.
struct SettingPlace {
  SourcePosition where;
  SourceLine source_line;
};

// What the files leave open.
struct RunContext {
  std::optional<ModelSpec> model = {};
  std::int64_t gpus = 0;                                             // 0: not known
  std::int64_t seq_len = 0;                                          // tokens; 0: not known
  std::int64_t micro_batch = 0, accumulation = 0, global_batch = 0;  // 0: not known
  std::string release = {};  // of the training program: a name or a date; empty: the newest
  bool lenient = false;      // goes on where an option or a condition is not understood
  ShellInputs shell = {};    // what a script is run with
};

// An option or setting of the files, and what was made of it.
struct ReadOption {
  std::string name, value;
  OptionEffect effect = OptionEffect::kModelled;
  std::string what;  // it is about; of one that is not modelled, what the estimate does instead
  int line = 0;
};

// A value that the files do not state.
struct AssumedValue {
  std::string what, value, source;
};

struct ImportedRun {
  Target target = Target::kMegatron;
  ModelSpec model;
  bool knows_model = true;      // else the files say how the work is split, and not of which model
  Strategy strategy;            // dp 0 where the number of devices is not known
  std::int64_t world_size = 0;  // 0: not known
  // Microbatches between two steps where the files state them and not the global batch; else 0.
  std::int64_t accumulation = 0;
  bool states_dp = false;     // else it follows from the number of devices
  std::int64_t replicas = 1;  // copies of the sharded states
  std::map<std::string, SettingPlace, std::less<>> places;  // of what was set, by its name there
  std::vector<std::string> not_read;   // settings that say nothing about model or plan
  std::vector<std::string> automatic;  // settings whose value another program fills in
  std::vector<std::string> notes;      // what a strategy cannot say, or says differently
  std::vector<ReadOption> options;     // every one, by name
  std::vector<std::string> unknown;    // options that no table knows
  std::vector<AssumedValue> assumed;
  std::string world_source;     // what says the number of devices
  bool grows_segments = false;  // PyTorch's allocator, by the script's environment
};

// Whether what a script sets in the environment lets PyTorch's allocator grow its segments.
[[nodiscard]] bool grows_segments(const std::map<std::string, ShellWord>& environment);

// The run's strategy on a number of devices (0: not known): dp and what follows from it. A batch
// that cannot be counted is the largest number, which no rule accepts.
[[nodiscard]] Strategy with_world(const ImportedRun& run, std::int64_t world_size);

// What no file of a model or of a strategy may say, at `file`. What the run leaves open is taken as
// legal.
[[nodiscard]] Diagnostics validate(const ImportedRun& run, const std::string& file);

// Layers of every pipeline rank and all its chunks -> how many of them are recomputed where one in
// `each` is. Empty where none is.
[[nodiscard]] std::vector<std::int64_t> every_nth(const std::vector<std::int64_t>& layers,
                                                  std::int64_t each);

}  // namespace meshplan
