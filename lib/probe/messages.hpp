#pragma once
// What the ranks tell each other; private to this library.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "probe/operation.hpp"

namespace meshplan {

// The first words of a rank that joins.
struct Hello {
  std::string token;
  std::string version;  // of meshplan
  std::string backend;
  std::string settings;  // of the run: equal on every rank
  std::string profile;   // of the files it works with, equal where a rank can read them; else empty
  std::int64_t rank = 0, ranks = 0, local_rank = 0;
  std::string host;
  std::string process;  // process_identity()
  bool operator==(const Hello&) const = default;
};

// Rank 0's answer; an empty reason: you are in.
struct Welcome {
  std::string refused;
  bool operator==(const Welcome&) const = default;
};

enum class DeviceAction { kBegin, kConnect, kPrepare, kRun, kCheck, kFinish, kEnd, kAbort };

// Rank 0 -> all: the next step of every rank's device.
struct Command {
  std::int64_t sequence = 0;
  DeviceAction action = DeviceAction::kBegin;
  std::string key;                                                     // kConnect: hexadecimal
  std::string operation;                                               // kPrepare: operation_line()
  std::int64_t part = 0, calls = 1, other_calls = 1, repetitions = 1;  // kRun
  double deadline_s = 0;
  bool operator==(const Command&) const = default;
};

// What came of it.
struct Reply {
  std::int64_t sequence = 0;
  std::int64_t status = 0;  // MESHPLAN_PROBE_OK, ...
  std::string error, note, key;
  std::vector<double> seconds, other_seconds, host_seconds, disturbed;  // kRun
  std::int64_t wrong = -1;                                              // kCheck
  double clock_ratio = -1;                                              // kRun
  std::map<std::string, std::string> facts;                             // kBegin
  bool operator==(const Reply&) const = default;
};

struct Heartbeat {
  std::int64_t sequence = 0;
  std::int64_t step = 0;      // calls that the device was given, or has finished
  std::int64_t answers = -1;  // whether the device does; -1: nobody asked
  bool operator==(const Heartbeat&) const = default;
};

[[nodiscard]] std::string to_message(const Hello& h);
[[nodiscard]] std::string to_message(const Welcome& w);
[[nodiscard]] std::string to_message(const Command& c);
[[nodiscard]] std::string to_message(const Reply& r);
[[nodiscard]] std::string to_message(const Heartbeat& h);

// Everything a peer may send, by kind; errors for what is none of them.
using Message = std::variant<Hello, Welcome, Command, Reply, Heartbeat>;
Result<Message> parse_message(std::string_view text);

MESHPLAN_NAMES(DeviceAction, {{DeviceAction::kBegin, "begin"},
                              {DeviceAction::kConnect, "connect"},
                              {DeviceAction::kPrepare, "prepare"},
                              {DeviceAction::kRun, "run"},
                              {DeviceAction::kCheck, "check"},
                              {DeviceAction::kFinish, "finish"},
                              {DeviceAction::kEnd, "end"},
                              {DeviceAction::kAbort, "abort"}});

}  // namespace meshplan
