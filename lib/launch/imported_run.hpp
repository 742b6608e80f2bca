#pragma once
// What a launch file says: the way back from an export, and into the program for runs that people
// already have.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"
#include "spec/target.hpp"

namespace meshplan {

// A file that was given, by the name that diagnostics use.
struct NamedText {
  std::string name, text;
};

// Where a setting stands.
struct SettingPlace {
  SourcePosition where;
  std::string source_line;
};

// What the files leave open.
struct RunContext {
  std::optional<ModelSpec> model;
  std::int64_t gpus = 0;     // 0: not known
  std::int64_t seq_len = 0;  // tokens; 0: not known
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
};

// The run's strategy on a number of devices (0: not known): dp and what follows from it.
[[nodiscard]] Strategy with_world(const ImportedRun& run, std::int64_t world_size);

// Layers of every pipeline rank and all its chunks -> how many of them are recomputed where one in
// `each` is. Empty where none is.
[[nodiscard]] std::vector<std::int64_t> every_nth(const std::vector<std::int64_t>& layers,
                                                  std::int64_t each);

}  // namespace meshplan
