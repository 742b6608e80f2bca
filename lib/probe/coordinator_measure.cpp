// What rank 0 makes of the steps: the machine's description and samples.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <set>
#include <thread>
#include <unistd.h>

#include "base/text.hpp"
#include "probe/coordinator.hpp"
#include "probe/samples_file.hpp"

namespace meshplan {
namespace {

// A repetition lasts this long at least, so that neither clock nor its reading matters.
constexpr Seconds kShortestRepetition{100e-6};
constexpr std::int64_t kMostCalls = 500;
constexpr double kThrottled = 0.75;  // of the default clock
// Kernels of a device that ran this long without a rest can run into its power limit (seen on H200:
// products of 1.5 ms lose a sixth of their rate within 20 of them), and it has forgotten them after
// several times as long. What lasts is measured by itself.
constexpr Seconds kLongestBurst{6e-3};
constexpr Seconds kRest{30e-3};
// How often repetitions are taken again where others ran meanwhile.
constexpr int kMostRounds = 4;

std::string fact(const Reply& r, const std::string& key) {
  const auto at = r.facts.find(key);
  return at == r.facts.end() ? std::string() : at->second;
}

bool concerns_libraries(std::string_view variable) {
  constexpr std::string_view kPrefixes[] = {
      "NCCL_",        "CUDA_", "CUBLAS", "CUDNN", "OMPI_MCA_btl", "OMPI_MCA_pml",
      "OMPI_MCA_mpi", "UCX_",  "FI_",    "PSM",   "NVIDIA_TF32",  "TORCH_NCCL"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view p) { return variable.substr(0, p.size()) == p; });
}

std::map<std::string, std::string> library_environment() {
  std::map<std::string, std::string> found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || !concerns_libraries(text)) continue;
    found[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  return found;
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];  // NOLINT: filled by strftime
  return {text, std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::int64_t number(const std::string& text) {
  std::int64_t n = 0;
  std::from_chars(text.data(), text.data() + text.size(), n);
  return n;
}

// Repetitions in which no rank was disturbed.
std::int64_t quiet_repetitions(const std::vector<Reply>& replies) {
  std::vector<double> worst(replies.front().seconds.size(), 0);
  for (const Reply& r : replies) {
    for (std::size_t i = 0; i < std::min(worst.size(), r.disturbed.size()); ++i) {
      worst[i] = std::max(worst[i], r.disturbed[i]);
    }
  }
  return std::count(worst.begin(), worst.end(), 0.0);
}

void append(std::vector<Reply>& replies, const std::vector<Reply>& more) {
  for (std::size_t r = 0; r < replies.size(); ++r) {
    for (const auto column :
         {&Reply::seconds, &Reply::other_seconds, &Reply::host_seconds, &Reply::disturbed}) {
      std::vector<double>& all = replies[r].*column;
      const std::vector<double>& some = more[r].*column;
      all.insert(all.end(), some.begin(), some.end());
    }
    replies[r].clock_ratio = std::min(replies[r].clock_ratio, more[r].clock_ratio);
  }
}

// The lowest clock that a rank's device had; nothing where none is known.
std::optional<double> lowest_clock(const std::vector<Reply>& replies) {
  std::optional<double> lowest;
  for (const Reply& r : replies) {
    if (r.clock_ratio >= 0 && (!lowest || r.clock_ratio < *lowest)) lowest = r.clock_ratio;
  }
  return lowest;
}

// An operation that the device cannot run is not a failure.
Diagnostic not_run(std::int64_t status, std::string reason) {
  Diagnostic d = error(std::move(reason));
  if (status == MESHPLAN_PROBE_IMPOSSIBLE) d.severity = Severity::kWarning;
  return d;
}

}  // namespace

std::optional<Diagnostic> Coordinator::compare_facts(const Replies& replies) const {
  for (std::size_t r = 1; r < replies.size(); ++r) {
    for (const auto& [key, value] : replies[0].facts) {
      const std::string other = fact(replies[r], key);
      const bool must_agree = key.rfind("version.", 0) == 0 || key == "device";
      if (!must_agree || other == value) continue;
      const bool version = key != "device";
      return error(name_of(peers_[r].hello) + " has " +
                       (version ? key.substr(8) + " " : std::string("the device ")) +
                       (other.empty() ? "of no known version" : other) + ", " +
                       name_of(peers_[0].hello) + " has " + value,
                   "measurements of unlike ranks say nothing: give all of them the same");
    }
  }
  return std::nullopt;
}

void Coordinator::fill_machine(const Replies& replies) {
  machine_ = {};
  machine_.backend = peers_[0].hello.backend;
  machine_.accelerator = fact(replies[0], "accelerator") == "1";
  machine_.device_memory = Bytes{number(fact(replies[0], "memory_bytes"))};
  machine_.date = now_text();
  machine_.environment = library_environment();
  machine_.versions["meshplan"] = peers_[0].hello.version;
  for (const auto& [key, value] : replies[0].facts) {
    if (key.rfind("version.", 0) == 0) machine_.versions[key.substr(8)] = value;
  }
  std::vector<std::string> hosts;
  std::set<std::string> devices;
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    const Hello& hello = peers_[r].hello;
    auto at = std::find(hosts.begin(), hosts.end(), hello.host);
    if (at == hosts.end()) at = hosts.insert(at, hello.host);
    RankPlace place;
    place.rank = hello.rank;
    place.local_rank = hello.local_rank;
    place.node = at - hosts.begin();
    place.host = hello.host;
    place.device = fact(replies[r], "device");
    place.device_id = hello.host + '/' + fact(replies[r], "device_id");
    // Processors are shared by nature, accelerators are not.
    const bool shared = !devices.insert(place.device_id).second;
    machine_.time_sliced = machine_.time_sliced || (shared && machine_.accelerator);
    machine_.ranks.push_back(std::move(place));
  }
  machine_.nodes = static_cast<std::int64_t>(hosts.size());
  machine_.ranks_per_node = ceil_div(static_cast<std::int64_t>(peers_.size()), machine_.nodes);
}

Result<bool> Coordinator::begin() {
  Command command;
  command.action = DeviceAction::kBegin;
  const Result<Replies> began = round(command, "taking the devices");
  if (!began) return began.errors();
  for (std::size_t r = 0; r < began->size(); ++r) {
    const Reply& reply = (*began)[r];
    if (reply.status == MESHPLAN_PROBE_OK) continue;
    return give_up(error(name_of(peers_[r].hello) + " cannot use its device: " + reply.error));
  }
  if (auto problem = compare_facts(*began)) return give_up(std::move(*problem));
  fill_machine(*began);
  command.action = DeviceAction::kConnect;
  command.key = began->front().key;
  const Result<Replies> connected = round(command, "connecting the ranks");
  if (!connected) return connected.errors();
  for (std::size_t r = 0; r < connected->size(); ++r) {
    const Reply& reply = (*connected)[r];
    if (reply.status == MESHPLAN_PROBE_OK) continue;
    return give_up(error(name_of(peers_[r].hello) + " cannot connect: " + reply.error));
  }
  return true;
}

std::optional<std::string> Coordinator::why_not(const Operation& op) const {
  if (auto reason = why_impossible(op, machine_)) return reason;
  const Bytes needed = buffer_bytes(op);
  if (machine_.device_memory > Bytes{0} && needed.si() > 0.8 * machine_.device_memory.si()) {
    return "needs " + human_bytes(needed) + " of the device's " +
           human_bytes(machine_.device_memory);
  }
  return std::nullopt;
}

Result<Sample> Coordinator::measure(const Operation& wanted, const MeasureOptions& o) {
  Operation op = wanted;
  if (RankGroup* group = group_of(op)) group->nodes = nodes_of(*group, machine_);
  const std::string what = describe(op);
  if (const auto reason = why_not(op)) return error("cannot measure " + what + ": " + *reason);
  Command command;
  command.action = DeviceAction::kPrepare;
  command.operation = operation_line(op);
  const Result<Replies> ready = round(command, what);
  if (!ready) return ready.errors();
  std::optional<Diagnostic> impossible;
  for (std::size_t r = 0; r < ready->size(); ++r) {
    const Reply& reply = (*ready)[r];
    if (reply.note != command.operation) {
      return give_up(error(name_of(peers_[r].hello) + " prepared another operation than " + what));
    }
    if (reply.status == MESHPLAN_PROBE_OK || impossible) continue;
    impossible = not_run(reply.status,
                         name_of(peers_[r].hello) + " cannot run " + what + ": " + reply.error);
  }
  Result<Sample> sample = impossible ? Result<Sample>(*impossible) : measure_prepared(op, o);
  if (!alive_) return sample;
  command.action = DeviceAction::kFinish;
  const Result<Replies> finished = round(command, what);
  if (!finished) return finished.errors();
  return sample;
}

Result<Sample> Coordinator::measure_prepared(const Operation& op, const MeasureOptions& o) {
  const bool overlap = std::holds_alternative<OverlapOperation>(op);
  Result<Sample> sample = overlap ? take_overlap(op, o) : take_times(op, o);
  if (!sample || !o.check) return sample;
  const Result<bool> checked = check_result(op, sample.value());
  if (!checked) return checked.errors();
  return sample;
}

Result<Coordinator::Replies> Coordinator::timed(const Operation& op, const Repetitions& r) {
  Command command;
  command.action = DeviceAction::kRun;
  command.part = r.part;
  command.calls = r.calls;
  command.other_calls = r.other_calls;
  command.repetitions = r.repetitions;
  Result<Replies> replies = round(command, describe(op));
  if (!replies) return replies;
  for (std::size_t i = 0; i < replies->size(); ++i) {
    const Reply& reply = (*replies)[i];
    const auto times = static_cast<std::int64_t>(reply.seconds.size());
    if (reply.status == MESHPLAN_PROBE_OK && times == r.repetitions) continue;
    if (reply.status == MESHPLAN_PROBE_OK) {
      return error(name_of(peers_[i].hello) + " sent " + std::to_string(times) + " times of " +
                   std::to_string(r.repetitions) + " repetitions: " + describe(op));
    }
    return not_run(reply.status, name_of(peers_[i].hello) + " could not run " + describe(op) +
                                     ": " + reply.error);
  }
  return replies;
}

std::vector<std::vector<Seconds>> Coordinator::times_of(const Operation& op, const Replies& replies,
                                                        std::vector<double> Reply::*column) const {
  const RankGroup* group = group_of(op);
  const auto ranks = static_cast<std::int64_t>(replies.size());
  std::vector<std::vector<double>> taken, seconds, disturbed;
  for (std::int64_t r = 0; r < ranks; ++r) {
    if (group != nullptr && place_of(*group, r, ranks).group < 0) continue;
    const Reply& reply = replies[static_cast<std::size_t>(r)];
    taken.push_back(reply.*column);
    seconds.push_back(reply.seconds);
    disturbed.push_back(reply.disturbed);
  }
  const std::vector<bool> counts = counting_repetitions(seconds, disturbed);
  std::vector<std::vector<Seconds>> all;
  for (const std::vector<double>& of_rank : taken) {
    std::vector<Seconds>& times = all.emplace_back();
    for (std::size_t i = 0; i < std::min(of_rank.size(), counts.size()); ++i) {
      if (counts[i]) times.emplace_back(of_rank[i]);
    }
  }
  return all;
}

// How many calls make a repetition long enough: the first calls connect and allocate, and a barrier
// weighs on a single call, so that one guess is not enough.
Result<Coordinator::Repetitions> Coordinator::warm_up(const Operation& op, const MeasureOptions& o,
                                                      std::int64_t part, Seconds& once) {
  constexpr int kGuesses = 3;
  Repetitions r{.part = part, .repetitions = std::max<std::int64_t>(1, o.warm_up)};
  const bool many_calls = !std::holds_alternative<LaunchOperation>(op);
  for (int guess = 0; guess < kGuesses; ++guess) {
    const Result<Replies> warm = timed(op, r);
    if (!warm) return warm.errors();
    Sample first;
    summarise(times_of(op, *warm, &Reply::seconds), first);
    once = std::max(*std::min_element(first.times.begin(), first.times.end()), Seconds{1e-9});
    const double wanted = std::ceil(kShortestRepetition / once);
    const auto calls =
        static_cast<std::int64_t>(std::clamp(wanted, 1.0, static_cast<double>(kMostCalls)));
    const bool enough = !many_calls || calls <= r.calls;
    if (enough) break;
    r.calls = calls;
  }
  return r;
}

Result<Coordinator::Replies> Coordinator::timed_in_rounds(const Operation& op, Repetitions r,
                                                          Seconds repetition) {
  Seconds most_time{static_cast<double>(options_.timeout.count()) / 1000 / 4};
  const std::int64_t wanted = r.repetitions;
  const bool rests = machine_.accelerator && group_of(op) == nullptr &&
                     repetition * static_cast<double>(wanted) > kLongestBurst;
  if (rests) most_time = std::min(most_time, kLongestBurst);
  const double fitting = std::max(1.0, most_time / repetition);
  std::optional<Replies> all;
  for (std::int64_t taken = 0; taken < wanted; taken += r.repetitions) {
    if (rests) std::this_thread::sleep_for(std::chrono::duration<double>(kRest.si()));
    r.repetitions =
        static_cast<std::int64_t>(std::min(fitting, static_cast<double>(wanted - taken)));
    Result<Replies> some = timed(op, r);
    if (!some) return some;
    if (all) {
      append(*all, *some);
    } else {
      all = std::move(some).value();
    }
  }
  return std::move(*all);
}

Result<SteadyTimes> Coordinator::take_steady(const Operation& op, Seconds once,
                                             const SteadyLimits& limits) {
  // So long that the device hardly rests between repetitions, and that a burst is a tenth of the
  // run.
  constexpr Seconds kRepetition{20e-3};
  constexpr std::int64_t kBurst = 5;
  Repetitions r{.part = MESHPLAN_PROBE_PART_ALL, .repetitions = kBurst};
  r.calls = static_cast<std::int64_t>(
      std::clamp(std::ceil(kRepetition / once), 1.0, static_cast<double>(kMostCalls)));
  const auto burst = [&]() -> Result<Burst> {
    const Clock::time_point begin = Clock::now();
    const Result<Replies> replies = timed(op, r);
    if (!replies) return replies.errors();
    Sample slowest;
    summarise(times_of(op, *replies, &Reply::seconds), slowest);
    const Seconds lasted{std::chrono::duration<double>(Clock::now() - begin).count()};
    return Burst{std::move(slowest.times), lasted, lowest_clock(*replies)};
  };
  return run_until_steady(burst, limits);
}

Result<Coordinator::Timed> Coordinator::timed_part(const Operation& op, const MeasureOptions& o,
                                                   std::int64_t part) {
  Seconds once;
  Result<Repetitions> warm = warm_up(op, o, part, once);
  if (!warm) return warm.errors();
  Repetitions r = *warm;
  const Seconds repetition = once * static_cast<double>(r.calls);
  const double affordable =
      std::max(o.time_limit / repetition, static_cast<double>(o.least_repetitions));
  r.repetitions = static_cast<std::int64_t>(
      std::max(1.0, std::min(affordable, static_cast<double>(o.repetitions))));
  Result<Replies> replies = timed_in_rounds(op, r, repetition);
  if (!replies) return replies.errors();
  for (int round = 1; round < kMostRounds && 2 * quiet_repetitions(*replies) < r.repetitions;
       ++round) {
    const Result<Replies> more = timed_in_rounds(op, r, repetition);
    if (!more) return more.errors();
    append(replies.value(), *more);
  }
  Timed out;
  out.calls = r.calls;
  out.replies = std::move(replies).value();
  Sample summary;
  summarise(times_of(op, out.replies, &Reply::seconds), summary);
  out.median = summary.median;
  return out;
}

Result<Sample> Coordinator::take_times(const Operation& op, const MeasureOptions& o) {
  const Result<Timed> all = timed_part(op, o, MESHPLAN_PROBE_PART_ALL);
  if (!all) return all.errors();
  Sample sample;
  sample.operation = op;
  sample.calls = all->calls;
  summarise(times_of(op, all->replies, &Reply::seconds), sample);
  const auto taken = static_cast<std::int64_t>(all->replies.front().seconds.size());
  sample.taken = taken;
  const std::int64_t quiet = quiet_repetitions(all->replies);
  if (quiet < taken) {
    sample.quiet = quiet;
    sample.note = std::to_string(taken - quiet) + " of " + std::to_string(taken) +
                  " repetitions were disturbed: something else ran on a processor";
  }
  Sample host;
  const auto host_times = times_of(op, all->replies, &Reply::host_seconds);
  summarise(host_times, host);
  if (host.median > Seconds{0}) sample.host_median = host.median;
  sample.clock = lowest_clock(all->replies);
  sample.throttled = sample.clock && *sample.clock < kThrottled;
  if (!o.steady || group_of(op) != nullptr || sample.median <= Seconds{0}) return sample;
  const Result<SteadyTimes> steady = take_steady(op, sample.median, *o.steady);
  if (!steady) return steady.errors();
  sample.steady = *steady;
  return sample;
}

Result<Sample> Coordinator::take_overlap(const Operation& op, const MeasureOptions& o) {
  const Result<Timed> compute = timed_part(op, o, MESHPLAN_PROBE_PART_COMPUTE);
  if (!compute) return compute.errors();
  const Result<Timed> communication = timed_part(op, o, MESHPLAN_PROBE_PART_COMMUNICATION);
  if (!communication) return communication.errors();
  // Both streams busy about as long: neither measures time alone.
  Repetitions together;
  together.repetitions = std::max<std::int64_t>(1, std::min<std::int64_t>(o.repetitions, 20));
  const double long_enough =
      std::max({compute->median.si() * 4, communication->median.si() * 4, 1e-3});
  together.calls =
      std::clamp<std::int64_t>(std::llround(long_enough / compute->median.si()), 1, kMostCalls);
  together.other_calls = std::clamp<std::int64_t>(
      std::llround(long_enough / communication->median.si()), 1, kMostCalls);
  const Result<Replies> both = timed(op, together);
  if (!both) return both.errors();
  Sample sample, other;
  sample.operation = op;
  sample.calls = together.calls;
  sample.taken = together.repetitions;
  sample.clock = lowest_clock(*both);
  summarise(times_of(op, *both, &Reply::seconds), sample);
  summarise(times_of(op, *both, &Reply::other_seconds), other);
  sample.overlap =
      OverlapTimes{compute->median, communication->median, sample.median, other.median};
  return sample;
}

Result<bool> Coordinator::check_result(const Operation& op, Sample& sample) {
  Command command;
  command.action = DeviceAction::kCheck;
  const Result<Replies> replies = round(command, "the check of " + describe(op));
  if (!replies) return replies.errors();
  for (std::size_t r = 0; r < replies->size(); ++r) {
    const Reply& reply = (*replies)[r];
    if (sample.note.empty()) sample.note = reply.note;
    if (reply.wrong == 0 && sample.correctness == Correctness::kNotChecked) {
      sample.correctness = Correctness::kCorrect;
    }
    if (reply.wrong <= 0) continue;
    sample.correctness = Correctness::kWrong;
    sample.note = name_of(peers_[r].hello) + ": " + std::to_string(reply.wrong) +
                  " wrong elements" + (reply.note.empty() ? "" : "; " + reply.note);
    break;
  }
  return true;
}

}  // namespace meshplan
