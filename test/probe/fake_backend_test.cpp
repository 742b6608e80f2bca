#include "probe/fake_backend.hpp"

#include "support/catch.hpp"

namespace meshplan {
namespace {

TEST_CASE("the fake backend measures what its clock says") {
  FakeBackend backend(fake_machine(16, 8), [](const Operation&) { return Seconds{0.5}; });
  const CollectiveOperation op{.bytes = Bytes{1024}, .group = {.size = 2, .stride = 8}};
  const Result<Sample> s = backend.measure(op, {.repetitions = 7, .time_limit = Seconds{4}});
  REQUIRE(s);
  CHECK(s->median == Seconds{0.5});
  CHECK(s->times.size() == 7);
  CHECK(group_of(s->operation)->nodes == 2);
  CHECK(backend.measured() == 1);
  CHECK(backend.measure(op, {.repetitions = 20, .time_limit = Seconds{4}})->taken == 8);
  CHECK(backend.measure(op, {.repetitions = 20, .time_limit = Seconds{1}})->taken == 5);
}

TEST_CASE("a lost rank ends the measurements") {
  FakeBackend backend(fake_machine(2, 2), [](const Operation&) { return Seconds{1}; });
  backend.lose_rank();
  CHECK_FALSE(backend.alive());
  CHECK_FALSE(backend.measure(LaunchOperation{}, {}));
}

TEST_CASE("what cannot be measured is refused with the reason") {
  const Machine m = fake_machine(8, 8);
  Machine cpu = fake_machine(8, 8);
  cpu.accelerator = false;
  cpu.backend = "mpi";
  const auto all = [](std::int64_t size, std::int64_t stride) {
    return CollectiveOperation{.bytes = Bytes{8}, .group = {.size = size, .stride = stride}};
  };
  CHECK_FALSE(why_impossible(all(8, 1), m));
  CHECK_FALSE(why_impossible(all(2, 4), m));
  CHECK(why_impossible(all(16, 1), m) == "needs 16 ranks, there are 8");
  CHECK(why_impossible(all(2, 8), m) == "needs 16 ranks, there are 8");
  CHECK(why_impossible(all(1, 1), m) == "a group of one rank has nobody to talk to");
  CHECK(why_impossible(all(INT64_MAX, INT64_MAX), m).has_value());
  CollectiveOperation send = all(4, 1);
  send.collective = Collective::kSendRecv;
  CHECK(why_impossible(send, m) == "a send one way needs a group of two ranks");
  send.group.size = 2;
  send.ping_pong = true;
  CHECK_FALSE(why_impossible(send, m));
  send.bidirectional = true;
  CHECK(why_impossible(send, m) == "a ping-pong goes one way at a time");
  send.collective = Collective::kBroadcast;
  send.bidirectional = false;
  CHECK(why_impossible(send, m) == "only sends go both ways");
  CHECK(why_impossible(GemmOperation{.m = 1, .n = 1, .k = 1}, cpu) ==
        "the backend 'mpi' measures communication only");
  CHECK(why_impossible(GemmOperation{.m = 1, .n = 0, .k = 1}, m) ==
        "every size must be at least 1");
}

}  // namespace
}  // namespace meshplan
