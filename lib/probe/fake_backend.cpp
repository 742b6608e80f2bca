#include "probe/fake_backend.hpp"

#include <algorithm>
#include <utility>

namespace meshplan {

Machine fake_machine(std::int64_t ranks, std::int64_t ranks_per_node) {
  Machine m;
  m.backend = "fake";
  m.accelerator = true;
  m.ranks_per_node = ranks_per_node;
  m.nodes = ceil_div(ranks, ranks_per_node);
  m.device_memory = Bytes{80 * kGiB};
  m.versions["fake"] = "1";
  for (std::int64_t r = 0; r < ranks; ++r) {
    RankPlace place;
    place.rank = r;
    place.local_rank = r % ranks_per_node;
    place.node = r / ranks_per_node;
    place.host = "node" + std::to_string(place.node);
    place.device = "fake device";
    place.device_id = place.host + ":" + std::to_string(place.local_rank);
    m.ranks.push_back(std::move(place));
  }
  return m;
}

FakeBackend::FakeBackend(Machine machine, Clock clock, Lasting lasting)
    : machine_(std::move(machine)), clock_(std::move(clock)), lasting_(std::move(lasting)) {}

std::optional<std::string> FakeBackend::why_not(const Operation& op) const {
  return why_impossible(op, machine_);
}

Result<Sample> FakeBackend::measure(const Operation& op, const MeasureOptions& o) {
  if (!alive_) return error("a rank was lost before " + describe(op));
  if (const std::optional<std::string> reason = why_not(op)) {
    return error("cannot measure " + describe(op) + ": " + *reason);
  }
  Result<Seconds> time = clock_(op);
  if (!time) return time.errors();
  Sample sample;
  sample.operation = op;
  if (RankGroup* group = group_of(sample.operation)) group->nodes = nodes_of(*group, machine_);
  const double affordable =
      std::max(o.time_limit / *time, static_cast<double>(o.least_repetitions));
  sample.taken =
      static_cast<std::int64_t>(std::min(affordable, static_cast<double>(o.repetitions)));
  summarise({std::vector<Seconds>(static_cast<std::size_t>(sample.taken), *time)}, sample);
  if (o.steady && group_of(op) == nullptr) {
    constexpr Seconds kBurst{0.125};
    Seconds busy;
    const auto burst = [&]() -> Result<Burst> {
      const Seconds now = lasting_ ? lasting_(op, busy) : *time;
      busy += kBurst;
      return Burst{{now}, kBurst, std::nullopt};
    };
    const Result<SteadyTimes> steady = run_until_steady(burst, *o.steady);
    if (!steady) return steady.errors();
    sample.steady = *steady;
  }
  sample.correctness = o.check ? Correctness::kCorrect : Correctness::kNotChecked;
  ++measured_;
  return sample;
}

}  // namespace meshplan
