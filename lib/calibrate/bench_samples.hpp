#pragma once
// Samples of a benchmark run (lib/probe) as input of the fits.
#include <span>
#include <string>
#include <vector>

#include "calibrate/collectives.hpp"
#include "probe/sample.hpp"

namespace meshplan {

// Half of the time of a message and its answer across a level.
struct LevelLatency {
  std::string level;
  Seconds time;
};

struct BenchCollectives {
  std::vector<CollectiveSample> samples;
  std::vector<LevelLatency> latencies;  // of ping-pongs, whatever their size
  std::vector<std::string> warnings;    // what was left out, and why
};

// The collectives among the samples, at the median of their repetitions. Left out: wrong results,
// throttled devices, sizes at which others kept running on the processors (where enough sizes are
// quiet), groups that ran alone where siblings would run beside them in training, and everything
// from a machine whose ranks share one device in time slices. The cluster's nodes must hold as many
// devices as the machine's hold ranks, unless it ran on one.
[[nodiscard]] Result<BenchCollectives> bench_collectives(std::span<const Sample> samples,
                                                         const Machine& machine,
                                                         const ClusterSpec& c);

[[nodiscard]] Provenance provenance_of(const Machine& machine);

}  // namespace meshplan
