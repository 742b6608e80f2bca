#include "schedule/in_flight.hpp"

#include <limits>

#include "schedule/orders.hpp"
#include "schedule/shapes.hpp"
#include "schedule/traits.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

using namespace testing;  // NOLINT: helpers of these tests

// Over a walk through the whole order: what the rank holds, and what its emptiest chunk holds, at
// most.
struct Walked {
  std::int64_t peak = 0;
  std::int32_t least_held = 0;
};
Walked walked(const PipelineShape& s, std::int64_t rank, const std::vector<Bytes>& saved,
              const std::vector<Bytes>& kept) {
  std::vector<std::int32_t> whole(static_cast<std::size_t>(num_chunks(s)), -1);
  const TaskOrder order = task_order(s, rank);
  for (const Task& t : order) whole[static_cast<std::size_t>(t.chunk)] = 0;
  Walked most;
  std::int64_t bytes = 0;
  for (const Task& t : order) {
    const auto c = static_cast<std::size_t>(t.chunk);
    if (t.kind == TaskKind::kForward) ++whole[c], bytes += saved[c].count();
    if (t.kind == TaskKind::kBackward) --whole[c], bytes -= saved[c].count();
    if (t.kind == TaskKind::kBackwardInput) --whole[c], bytes -= (saved[c] - kept[c]).count();
    if (t.kind == TaskKind::kBackwardWeight) bytes -= kept[c].count();
    std::int32_t least = std::numeric_limits<std::int32_t>::max();
    for (const std::int32_t n : whole) least = n < 0 ? least : std::min(least, n);
    most.peak = std::max(most.peak, bytes);
    most.least_held = std::max(most.least_held, least);
  }
  return most;
}

TEST_CASE("Fullest moments give the peak that a walk over the whole schedule gives") {
  RandomShapes random(11);
  for (int i = 0; i < 1200; ++i) {
    const PipelineShape s = random.shape(60);
    CAPTURE(name_of(s.schedule), s.pp, s.vp, s.microbatches, s.group);
    std::vector<Bytes> saved, kept;
    for (std::int64_t c = 0; c < num_chunks(s); ++c) {
      saved.push_back(Bytes{random.integer(0, 1000)});
      kept.push_back(Bytes{random.integer(0, saved.back().count())});
    }
    for (std::int64_t r = 0; r < s.pp; ++r) {
      const InFlight moments = in_flight(s, r);
      std::vector<Bytes> own_saved, own_kept;
      for (const std::size_t c : moments.chunks) {
        own_saved.push_back(saved[c]);
        own_kept.push_back(kept[c]);
      }
      const Walked most = walked(s, r, saved, kept);
      REQUIRE(moments.peak(own_saved, own_kept).count() == most.peak);
      REQUIRE(moments.least_held == most.least_held);
      if (traits_of(s.schedule).forwards_first) continue;  // holds every microbatch
      const InFlight few = in_flight(steady_template(s), r);
      REQUIRE(few.peak(own_saved, own_kept).count() == most.peak);
      REQUIRE(few.least_held == most.least_held);
    }
  }
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

}  // namespace
}  // namespace meshplan
