#pragma once
// The machine as bench and validate see it: hand in an operation, get a sample.
#include <optional>
#include <string>

#include "base/result.hpp"
#include "probe/sample.hpp"
#include "probe/steady.hpp"

namespace meshplan {

struct MeasureOptions {
  std::int64_t repetitions = 20;  // at most; fewer where they would take longer than the limit
  std::int64_t warm_up = 3;       // untimed calls before
  Seconds time_limit{1.0};        // of the repetitions, once there are `least_repetitions`
  std::int64_t least_repetitions = 5;
  bool check = true;  // compare the result with what it has to be
  // Run kernels on until their rate lasts, after the repetitions; nothing: no such run.
  std::optional<SteadyLimits> steady{};
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual const Machine& machine() const = 0;

  // Why this backend cannot measure `op` here ("needs 16 ranks, there are 8"); nothing if it can.
  [[nodiscard]] virtual std::optional<std::string> why_not(const Operation& op) const = 0;

  // Runs `op` on every rank it concerns. Errors name rank, host, operation and size. One that is a
  // warning only says that the device or its libraries cannot run `op`: nothing failed. A wrong
  // result is a sample with Correctness::kWrong, not an error.
  [[nodiscard]] virtual Result<Sample> measure(const Operation& op,
                                               const MeasureOptions& options) = 0;

  // Looks whether every rank is still there: a launcher that asks for an end may do so because one
  // died. Errors name the rank that is gone.
  [[nodiscard]] virtual Result<bool> confirm() { return true; }

  // False once a rank was lost: nothing can be measured any more.
  [[nodiscard]] virtual bool alive() const = 0;
};

// What no backend can do: sizes that make no sense, groups larger than the job, kernels on a CPU.
[[nodiscard]] std::optional<std::string> why_impossible(const Operation& op, const Machine& m);

}  // namespace meshplan
