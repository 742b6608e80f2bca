#include "search/in_flight.hpp"

#include <limits>

#include "search/cases.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

// Most over a walk through the schedule of what the emptiest chunk holds.
std::int32_t least_held(const PipelineShape& s, std::int64_t rank) {
  std::vector<std::int32_t> held(static_cast<std::size_t>(num_chunks(s)), -1);
  const std::vector<Task> order = task_order(s, rank);
  for (const Task& t : order) held[static_cast<std::size_t>(t.chunk)] = 0;
  std::int32_t most = 0;
  for (const Task& t : order) {
    std::int32_t& chunk = held[static_cast<std::size_t>(t.chunk)];
    if (t.kind == TaskKind::kForward) ++chunk;
    if (t.kind == TaskKind::kBackward || t.kind == TaskKind::kBackwardInput) --chunk;
    std::int32_t least = std::numeric_limits<std::int32_t>::max();
    for (const std::int32_t n : held) least = n < 0 ? least : std::min(least, n);
    most = std::max(most, least);
  }
  return most;
}

}  // namespace

TEST_CASE("fullest moments give the peak that a walk over the whole schedule gives") {
  const auto schedule = GENERATE(Schedule::kGpipe, Schedule::k1f1b, Schedule::kInterleaved,
                                 Schedule::kZbH1, Schedule::kZbV, Schedule::kDualPipe);
  CAPTURE(name_of(schedule));
  Dice dice(11);
  int tried = 0;
  for (int i = 0; i < 200; ++i) {
    PipelineShape s{schedule, dice.between(2, 8), 1, dice.between(1, 60), 0};
    if (schedule == Schedule::kInterleaved) {
      s.vp = dice.between(2, 5);
      if (dice.once_in(3)) s.group = s.pp + dice.between(0, 5);
    }
    if (schedule == Schedule::kZbV || schedule == Schedule::kDualPipe) s.vp = 2;
    if (!illegal_reason(s).empty()) continue;
    ++tried;
    std::vector<Bytes> saved, kept;
    for (std::int64_t c = 0; c < num_chunks(s); ++c) {
      saved.push_back(Bytes{dice.between(0, 1000)});
      kept.push_back(Bytes{dice.between(0, saved.back().count())});
    }
    for (std::int64_t r = 0; r < s.pp; ++r) {
      const InFlight moments = in_flight(s, r);
      std::vector<Bytes> own_saved, own_kept;
      for (const std::size_t c : moments.chunks) {
        own_saved.push_back(saved[c]);
        own_kept.push_back(kept[c]);
      }
      REQUIRE(moments.peak(own_saved, own_kept) == peak_activation(s, r, saved, kept));
      REQUIRE(moments.least_held == least_held(s, r));
    }
  }
  CHECK(tried > 20);
}

TEST_CASE("1F1B rank r holds min(m, p - r) microbatches") {
  for (const std::int64_t m : {2, 4, 9}) {
    for (std::int64_t r = 0; r < 4; ++r) {
      const InFlight moments = in_flight({Schedule::k1f1b, 4, 1, m, 0}, r);
      CHECK(moments.peak(std::vector{Bytes{7}}, std::vector{Bytes{3}}) ==
            Bytes{7 * std::min(m, 4 - r)});
    }
  }
}
