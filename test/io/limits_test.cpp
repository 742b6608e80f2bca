// Limits of a search from the command line.
#include "io/limits.hpp"

#include "support/catch.hpp"

namespace meshplan {
namespace {

std::string errors_of(std::string_view text) {
  const auto read = parse_limits(text, "--limit");
  return read.ok() ? "no error" : to_text(read.errors());
}

}  // namespace

TEST_CASE("Limits hold a key, a comparison and their values") {
  const auto read = parse_limits(
      "tp<=8,pp>=2,vp=1|2,schedule=1f1b|interleaved,dp>4,zero<3,stage_layers=[1,2]|[2,1],"
      "overlap.tp=true",
      "--limit");
  if (!read.ok()) FAIL(to_text(read.errors()));
  using List = std::vector<std::int64_t>;
  const std::vector<Limit> want{
      {"tp", LimitOp::kAtMost, {std::int64_t{8}}},
      {"pp", LimitOp::kAtLeast, {std::int64_t{2}}},
      {"vp", LimitOp::kEqual, {std::int64_t{1}, std::int64_t{2}}},
      {"schedule", LimitOp::kEqual, {Schedule::k1f1b, Schedule::kInterleaved}},
      {"dp", LimitOp::kAbove, {std::int64_t{4}}},
      {"zero", LimitOp::kBelow, {3}},
      {"stage_layers", LimitOp::kEqual, {List{1, 2}, List{2, 1}}},
      {"overlap.tp", LimitOp::kEqual, {true}}};
  CHECK(*read == want);
}

TEST_CASE("A limit's text reads back to the same limit") {
  const auto read =
      parse_limits("tp<=8,vp=1|2,kernels.host_factor>=0.1,order=tp-cp-ep-dp-pp", "--fix");
  REQUIRE(read.ok());
  for (const Limit& limit : *read) {
    const auto again = parse_limits(to_text(limit), "--fix");
    REQUIRE(again.ok());
    CHECK(*again == std::vector<Limit>{limit});
  }
}

TEST_CASE("Problems of limits point into them, all at once") {
  CHECK(errors_of("tpp<=8,pp>=2|3,vp=x,schedule<1f1b,dp=") ==
        "--limit:1:1: error: unknown key 'tpp'\n"
        "  tpp<=8,pp>=2|3,vp=x,schedule<1f1b,dp=\n"
        "  ^~~\n"
        "  hint: did you mean 'tp'?\n"
        "--limit:1:8: error: 'pp>=' needs exactly one number\n"
        "  tpp<=8,pp>=2|3,vp=x,schedule<1f1b,dp=\n"
        "         ^~\n"
        "  hint: write pp=value\n"
        "--limit:1:19: error: 'vp' must be a whole number, got \"x\"\n"
        "  tpp<=8,pp>=2|3,vp=x,schedule<1f1b,dp=\n"
        "                    ^\n"
        "--limit:1:21: error: 'schedule' has no order: '<' cannot compare it\n"
        "  tpp<=8,pp>=2|3,vp=x,schedule<1f1b,dp=\n"
        "                      ^~~~~~~~\n"
        "  hint: write schedule=value\n"
        "--limit:1:35: error: 'dp' has no value\n"
        "  tpp<=8,pp>=2|3,vp=x,schedule<1f1b,dp=\n"
        "                                    ^~\n");
  CHECK(errors_of("") == "--limit:1:1: error: a key=value is missing here\n");
}

}  // namespace meshplan
