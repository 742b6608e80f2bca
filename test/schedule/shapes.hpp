#pragma once
// Shapes, times and runs that the schedule tests share.
#include <random>
#include <vector>

#include "schedule/pipeline.hpp"
#include "schedule/run.hpp"

namespace meshplan::testing {

inline std::vector<ChunkTime> equal_chunks(const PipelineShape& s, double f, double b, double w) {
  return {static_cast<std::size_t>(num_chunks(s)), ChunkTime{Seconds{f}, Seconds{b}, Seconds{w}}};
}

inline std::vector<SendTime> no_sends(const PipelineShape& s) {
  return std::vector<SendTime>(static_cast<std::size_t>(num_chunks(s) - 1));
}

inline PipelineResult run_without_sends(const PipelineShape& s,
                                        const std::vector<ChunkTime>& chunks,
                                        bool with_timeline = false) {
  return run_pipeline(s, chunks, no_sends(s), no_sends(s), with_timeline);
}

inline double makespan(const PipelineShape& s, double f, double b, double w) {
  return run_without_sends(s, equal_chunks(s, f, b, w)).makespan.si();
}

// Idle time over the work of one rank, equal stages.
inline double bubble(const PipelineShape& s, double f, double b, double w) {
  const PipelineResult r = run_without_sends(s, equal_chunks(s, f, b, w));
  return r.makespan.si() - r.busy.front().si();
}

// Any legal shape of any schedule, small enough to run thousands of.
class RandomShapes {
 public:
  explicit RandomShapes(unsigned seed) : random_(seed) {}

  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  double real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }

  PipelineShape shape(std::int64_t max_microbatches = 40) {
    for (;;) {
      PipelineShape s;
      s.schedule = static_cast<Schedule>(integer(0, static_cast<int>(kNumSchedules) - 1));
      s.pp = integer(1, 8);
      const ChunksPerRank chunks = traits_of(s.schedule).chunks;
      s.vp = chunks == ChunksPerRank::kTwo       ? 2
             : chunks == ChunksPerRank::kSeveral ? integer(2, 4)
                                                 : 1;
      s.group = s.schedule == Schedule::kInterleaved ? integer(0, 12) : 0;
      s.microbatches = integer(1, max_microbatches);
      if (illegal_reason(s).empty()) return s;
    }
  }

  std::vector<ChunkTime> chunks(const PipelineShape& s) {
    std::vector<ChunkTime> all;
    for (std::int64_t i = 0; i < num_chunks(s); ++i) {
      all.push_back({Seconds{real(0.5, 2)}, Seconds{real(0.5, 2)}, Seconds{real(0.2, 2)}});
    }
    return all;
  }

  std::vector<SendTime> sends(const PipelineShape& s) {
    std::vector<SendTime> all;
    for (std::int64_t i = 0; i + 1 < num_chunks(s); ++i) {
      const double transfer = real(0, 0.5);
      all.push_back({Seconds{transfer}, Seconds{real(0, transfer)}, Seconds{real(0, transfer)}});
    }
    return all;
  }

 private:
  std::mt19937 random_;
};

}  // namespace meshplan::testing
