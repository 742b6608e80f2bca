#include "probe/steady.hpp"

#include "support/catch.hpp"

namespace meshplan {
namespace {

// A device that holds its clock for half a second and then falls back, in bursts of an eighth.
struct Limited {
  Seconds busy;
  int bursts = 0;
  double jitter = 0;

  Result<Burst> operator()() {
    const Seconds time = busy < Seconds{0.45} ? Seconds{1e-3} : Seconds{1.25e-3};
    busy += Seconds{0.125};
    ++bursts;
    const double off = bursts % 2 == 0 ? 1 + jitter : 1 - jitter;
    return Burst{{time * off, time * off}, Seconds{0.125}, bursts < 5 ? 1.0 : 0.8};
  }
};

TEST_CASE("the rate that lasts is that of the later half of the run") {
  Limited device;
  const auto steady = run_until_steady([&] { return device(); }, {});
  REQUIRE(steady);
  CHECK(steady->median.si() == Approx(1.25e-3));
  CHECK(steady->settled);
  CHECK(steady->spread == Approx(0).margin(1e-9));
  CHECK(steady->clock == 0.8);
  // Not before a second is over, though the first bursts were as alike as the last.
  CHECK(steady->lasted.si() == Approx(1.0));
  CHECK(device.bursts == 8);
}

TEST_CASE("a rate that does not settle ends at the limit and says so") {
  Limited device{.busy = {}, .bursts = 0, .jitter = 0.02};
  const auto steady = run_until_steady([&] { return device(); }, {});
  REQUIRE(steady);
  CHECK_FALSE(steady->settled);
  CHECK(steady->spread == Approx(0.02).epsilon(0.05));
  CHECK(steady->lasted.si() == Approx(2.0));
  CHECK(steady->median.si() == Approx(1.25e-3).epsilon(0.021));
}

TEST_CASE("a rate that settles late is waited for") {
  // Still falling in the later half of the first second: 0.6 s to 1 s at the first rate.
  Limited device{.busy = Seconds{-0.3}};
  const auto steady = run_until_steady([&] { return device(); }, {});
  REQUIRE(steady);
  CHECK(steady->settled);
  CHECK(steady->lasted > Seconds{1.3});
  CHECK(steady->median.si() == Approx(1.25e-3));
}

TEST_CASE("a steady run that fails or takes no time is an error") {
  CHECK_FALSE(run_until_steady([]() -> Result<Burst> { return error("lost"); }, {}));
  CHECK_FALSE(run_until_steady([]() -> Result<Burst> { return Burst{}; }, {}));
}

}  // namespace
}  // namespace meshplan
