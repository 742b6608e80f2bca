#pragma once
// Measures an agenda within a budget of time.
#include <functional>
#include <string>
#include <vector>

#include "probe/backend.hpp"
#include "probe/samples_file.hpp"

namespace meshplan {

struct BenchOptions {
  Seconds budget{600};
  MeasureOptions measure;             // `steady` is for operations that fill the device
  std::function<Seconds()> clock;     // since any fixed moment
  std::function<bool()> interrupted;  // true: end after the running operation
};

struct BenchProgress {
  std::size_t done = 0, total = 0;
  Seconds elapsed, left;  // of the budget, or less if less is to do
  const Operation* next = nullptr;
};

struct BenchEvents {
  // Each new sample: what was measured so far should reach the disk now.
  std::function<Result<bool>(const SamplesFile&)> keep;
  std::function<void(const BenchProgress&)> progress;
};

enum class BenchEnd { kComplete, kOutOfTime, kInterrupted, kFailed };

struct Skipped {
  Operation operation;
  std::string reason;
};

struct BenchOutcome {
  SamplesFile file;
  std::size_t resumed = 0;        // samples that were there before
  std::vector<Skipped> skipped;   // cannot be measured here, or take too long
  std::size_t not_reached = 0;    // the time was up
  std::size_t short_samples = 0;  // of fewer repetitions than were asked for
  BenchEnd end = BenchEnd::kComplete;
  Diagnostics problems;  // why it failed
};

// Operations that `before` holds already are not measured again. Steady runs take up to a third of
// the budget. What was too long for all its repetitions is measured once more, the quickest first,
// where the rest of the agenda left time for it. Large messages are left out once a
// smaller one of the same kind shows that they would take more than a tenth of the budget.
[[nodiscard]] BenchOutcome run_bench(Backend& backend, const std::vector<Operation>& agenda,
                                     SamplesFile before, const BenchOptions& options,
                                     const BenchEvents& events);

// Why measurements of `before` may not be continued on `now`; nothing if they may.
[[nodiscard]] std::optional<std::string> why_not_resume(const Machine& before, const Machine& now);

}  // namespace meshplan
