#include "base/units.hpp"

#include <limits>

#include "support/catch.hpp"

using namespace meshplan;

TEST_CASE("bytes beyond 64 bits are an error, never a wrong number") {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  Bytes most{kMost}, least{std::numeric_limits<std::int64_t>::min()};
  CHECK(most + Bytes{0} == most);
  CHECK(Bytes{1} * kMost == most);
  CHECK(most - most == Bytes{});
  CHECK_THROWS_AS(most + Bytes{1}, InternalError);
  CHECK_THROWS_AS(most += most, InternalError);
  CHECK_THROWS_AS(least - Bytes{1}, InternalError);
  CHECK_THROWS_AS(least -= most, InternalError);
  CHECK_THROWS_AS(Bytes{kMost / 2 + 1} * 2, InternalError);
  CHECK_THROWS_AS(2 * Bytes{kMost / 2 + 1}, InternalError);
  CHECK(most == Bytes{kMost});  // what failed changed nothing
  CHECK_THROWS_AS(ceil_bytes(0x1p63), InternalError);
  CHECK_THROWS_AS(ceil_bytes(std::numeric_limits<double>::quiet_NaN()), InternalError);
  CHECK(ceil_bytes(0x1p62) == Bytes{std::int64_t{1} << 62});
}
