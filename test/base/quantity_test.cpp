#include "base/quantity.hpp"

#include <string>

#include "support/catch.hpp"

using namespace meshplan;

namespace {

template <class T>
std::string message(const Result<T>& r) {
  REQUIRE_FALSE(r.ok());
  REQUIRE(r.errors().size() == 1);
  return r.errors()[0].message;
}

}  // namespace

TEST_CASE("decimal prefixes are powers of 1000 and binary ones of 1024") {
  CHECK(*parse_bytes("80 GiB") == Bytes{85'899'345'920});
  CHECK(*parse_bytes("80GB") == Bytes{80'000'000'000});
  CHECK(*parse_bytes("81559 MiB") == Bytes{85'520'809'984});
  CHECK(parse_bandwidth("450 GB/s")->si() == Approx(450e9));
  CHECK(parse_flop_rate("989.4 TFLOP/s")->si() == Approx(989.4e12));
  CHECK(parse_time("2.5 ms")->si() == Approx(2.5e-3));
}

TEST_CASE("network rates in bits are an eighth in bytes") {
  CHECK(parse_bandwidth("400 Gbit/s")->si() == Approx(50e9));
  CHECK(parse_bandwidth("400 Gbps")->si() == Approx(50e9));
}

TEST_CASE("a number without its unit, or with one of another kind, is an error that says so") {
  CHECK(message(parse_bytes("80")) == "\"80\" has no unit");
  CHECK(message(parse_bandwidth("450 GB")) == "unknown unit \"GB\" in \"450 GB\"");
  CHECK(message(parse_time("5 parsecs")) == "unknown unit \"parsecs\" in \"5 parsecs\"");
  CHECK(message(parse_bytes("eighty GiB")) == "\"eighty GiB\" is not a number with a unit");
  CHECK(message(parse_bytes("-1 GiB")) == "\"-1 GiB\" is negative");
  CHECK_FALSE(parse_bytes("nan GiB").ok());
  CHECK_FALSE(parse_bytes("inf GiB").ok());
  CHECK_FALSE(parse_bytes("1e300 TiB").ok());
  CHECK_FALSE(parse_flop_rate("1e308 PFLOP/s").ok());
  CHECK_FALSE(parse_bytes("").ok());
}

TEST_CASE("whole numbers are decimal, whatever zeros lead them, and must fit") {
  CHECK(*parse_integer("010") == 10);
  CHECK(*parse_integer(" 42 ") == 42);
  CHECK(*parse_integer("-7") == -7);
  CHECK(message(parse_integer("0x10")) == "\"0x10\" is not a whole number");
  CHECK(message(parse_integer("1.5")) == "\"1.5\" is not a whole number");
  CHECK(message(parse_integer("99999999999999999999")) == "\"99999999999999999999\" is too large");
}

TEST_CASE("real numbers are finite") {
  CHECK(*parse_real("2.5e-3") == 2.5e-3);
  CHECK_FALSE(parse_real("nan").ok());
  CHECK_FALSE(parse_real("1,5").ok());
}

TEST_CASE("exact text is short where the number is round and exact where it is not") {
  CHECK(exact_text(BytesPerSecond{450e9}) == "450 GB/s");
  CHECK(exact_text(FlopsPerSecond{989e12}) == "989 TFLOP/s");
  CHECK(exact_text(Bytes{80 * kGiB}) == "80 GiB");
  CHECK(exact_text(Seconds{}) == "0 ns");
  const double odd = GENERATE(1.0 / 3, 1e-9 / 7, 123456789.123, 3e-6, 8.5e-6, 1e-300, 1e300);
  CHECK(parse_time(exact_text(Seconds{odd}))->si() == odd);
  CHECK(parse_bandwidth(exact_text(BytesPerSecond{odd}))->si() == odd);
  CHECK(parse_flop_rate(exact_text(FlopsPerSecond{odd}))->si() == odd);
  const std::int64_t bytes = GENERATE(as<std::int64_t>{}, 0, 1, 644245094, 8'999'999'999'999'999);
  CHECK(parse_bytes(exact_text(Bytes{bytes}))->count() == bytes);
}
