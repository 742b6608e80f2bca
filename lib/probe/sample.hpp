#pragma once
// One measurement: the operation, every repetition's time, and what is to be thought of it.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "probe/operation.hpp"

namespace meshplan {

enum class Correctness { kNotChecked, kCorrect, kWrong };

// The two halves of an OverlapOperation, each alone and beside the other.
struct OverlapTimes {
  Seconds compute_alone{}, communication_alone{};
  Seconds compute_beside{}, communication_beside{};
  bool operator==(const OverlapTimes&) const = default;
};

// The same operation back to back for a second or more (probe/steady.hpp).
struct SteadyTimes {
  Seconds median{};               // of one call, late in the run
  double spread = 0;              // standard deviation of the late times over their mean
  Seconds lasted{};               // the whole run
  bool settled = false;           // the late times hardly varied any more
  std::optional<double> clock{};  // of the device over its default, at the end
  bool operator==(const SteadyTimes&) const = default;
};

struct Sample {
  Operation operation{};
  std::vector<Seconds> times{};  // of one call, per repetition that counts, on the slowest rank
  std::int64_t calls = 1;        // issued back to back in each repetition; `times` are per call
  std::int64_t taken = 0;        // repetitions, those that do not count included; 0: not recorded

  Seconds median{};
  double spread = 0;              // interquartile range over the median
  std::int64_t outliers = 0;      // repetitions beyond the median by 3 interquartile ranges or more
  bool throttled = false;         // the device ran below 75 % of its default clock meanwhile
  std::optional<double> clock{};  // the lowest of the device over its default, where it is known
  std::int64_t slowest_rank = 0;  // the one that was slowest most often
  // What that rank took longer than the middle one of the others, as a share; nothing for one rank.
  std::optional<double> lag{};
  // Repetitions in which nothing else ran on a rank's processor; nothing where that is not known.
  std::optional<std::int64_t> quiet{};

  // Host clock around the same calls, launches included, where it was taken.
  std::optional<Seconds> host_median{};
  std::optional<OverlapTimes> overlap{};
  std::optional<SteadyTimes> steady{};  // where it ran long enough; `times` are of short bursts

  Correctness correctness = Correctness::kNotChecked;
  std::string note{};  // what was wrong, which algorithm was used

  bool operator==(const Sample&) const = default;
};

// What times[rank][repetition] say: every rank must have as many repetitions. Fills times, median,
// spread, outliers, slowest_rank and lag.
void summarise(const std::vector<std::vector<Seconds>>& times_of_ranks, Sample& sample);

// Which repetitions count, of times[rank][repetition] in seconds and whether each rank was
// disturbed in each (above zero): those in which no rank was. Where they are fewer than three: the
// fastest quarter, since an interruption only adds time.
inline constexpr std::int64_t kFewestQuiet = 3;
[[nodiscard]] std::vector<bool> counting_repetitions(
    const std::vector<std::vector<double>>& times,
    const std::vector<std::vector<double>>& disturbed);

// The middle one of a copy of the values (the mean of the two middle ones), 0 for none.
[[nodiscard]] Seconds median_of(std::vector<Seconds> values);

// Repetitions that were taken of it, as far as that was recorded.
[[nodiscard]] std::int64_t repetitions_of(const Sample& s);

// Noisy: more than half of the median between the quartiles. Worth measuring again.
[[nodiscard]] bool is_noisy(const Sample& s);

// A rank whose device is slower than those of the others.
struct Straggler {
  std::int64_t rank = 0;
  std::size_t operations = 0, of = 0;  // in which it lagged, and that were measured
  double lag = 0;                      // of those, the median
  bool operator==(const Straggler&) const = default;
};

// The ranks that lagged by more than a twentieth, and by more than the spread, in at least half of
// the operations that every rank does alone; in a collective all wait for the slowest.
[[nodiscard]] std::vector<Straggler> stragglers(const std::vector<Sample>& samples);

struct RankPlace {
  std::int64_t rank = 0;
  std::int64_t local_rank = 0;
  std::int64_t node = 0;  // index into the job's hosts
  std::string host;
  std::string device;     // "NVIDIA H200", "CPU"
  std::string device_id;  // PCI bus id or the like: equal ids mean one shared device
  bool operator==(const RankPlace&) const = default;
};

// What was measured on: goes into every profile.
struct Machine {
  std::string backend;       // "nccl", "mpi", "fake"
  bool accelerator = false;  // kernels can be measured
  std::vector<RankPlace> ranks;
  std::int64_t nodes = 1;
  std::int64_t ranks_per_node = 1;
  Bytes device_memory;
  std::map<std::string, std::string> versions;     // "driver", "cuda", "nccl", "mpi", ...
  std::map<std::string, std::string> environment;  // NCCL_*, CUDA_*, OMPI_MCA_*, ... of rank 0
  std::string date;                                // "2025-01-31T12:00:00Z"
  // Several ranks share one device: times are of time slices and never a bandwidth.
  bool time_sliced = false;
  bool operator==(const Machine&) const = default;
};

// Nodes that the group with most of them touches.
[[nodiscard]] std::int64_t nodes_of(const RankGroup& g, const Machine& m);

MESHPLAN_NAMES(Correctness, {{Correctness::kNotChecked, "not-checked"},
                             {Correctness::kCorrect, "correct"},
                             {Correctness::kWrong, "wrong"}});

}  // namespace meshplan
