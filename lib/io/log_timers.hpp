#pragma once
// What the timers of a training log say of the parts of a step.
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"

namespace meshplan {

// One timer over the steady part of a log, seconds of one step: the median over its reports of the
// fastest and of the slowest rank. Programs that report one rank have both alike.
struct LogTimer {
  std::string name;  // as the program prints it
  Seconds least, most;
  std::int64_t reports = 0;  // that count

  bool operator==(const LogTimer&) const = default;
};

// Timers in the order in which they first appear. Read are Megatron-LM's "(min, max) time across
// ranks (ms):" and what older releases and DeepSpeed print as "time (ms) | name: 1.2 | ..."
// (Megatron-LM megatron/core/timers.py, DeepSpeed utils/timer.py: per step, means of the reported
// interval). The first fifth of a timer's reports (at least one where there are several, at most
// twenty) is warm-up, as for the time of a step.
[[nodiscard]] std::vector<LogTimer> parse_log_timers(std::string_view text);

}  // namespace meshplan
