#include "probe/meeting.hpp"

#include <sys/socket.h>
#include <thread>

#include "support/catch.hpp"

namespace meshplan {
namespace {

using std::chrono::milliseconds;

Hello hello(std::int64_t rank, std::int64_t ranks) {
  Hello h;
  h.token = "the job's";
  h.version = "1";
  h.backend = "mpi";
  h.settings = "bench";
  h.profile = "ba5";
  h.rank = rank, h.ranks = ranks;
  h.host = "node" + std::to_string(rank);
  h.process = "boot|ns|" + std::to_string(100 + rank) + "|1";
  return h;
}

// Rank 0 waits for one other; `visit` plays whoever comes.
Result<std::vector<Peer>> meet(const std::function<void(int port)>& visit,
                               milliseconds patience = milliseconds(3000)) {
  Result<Listener> listener = Listener::open("127.0.0.1", 0);
  REQUIRE(listener);
  std::thread visitor([&visit, port = listener->port()] { visit(port); });
  Result<std::vector<Peer>> peers =
      admit_ranks(*listener, hello(0, 2), Clock::now() + patience, {});
  visitor.join();
  return peers;
}

Result<Connection> come(int port, const Hello& h) {
  return introduce("127.0.0.1", port, h, Clock::now() + milliseconds(3000));
}

TEST_CASE("ranks of one job meet") {
  Hello other = hello(1, 2);
  // The files may lie on rank 0's host alone.
  if (GENERATE(false, true)) other.profile.clear();
  bool in = false;
  const auto peers = meet([&](int port) { in = come(port, other).ok(); });
  REQUIRE(peers);
  CHECK(in);
  CHECK(peers->size() == 2);
  CHECK((*peers)[1].hello == other);
}

TEST_CASE("garbage on the port changes nothing") {
  const std::string garbage =
      GENERATE(as<std::string>{}, "GET / HTTP/1.1\r\n\r\n", std::string(100, '\0'),
               std::string(100'000, '\xff'), std::string("\x02\x00\x00\x00{}", 6),
               std::string("\x05\x00\x00\x00hello", 9), "");
  const auto peers = meet([&](int port) {
    Result<Connection> raw = connect_to("127.0.0.1", port, Clock::now() + milliseconds(1000));
    REQUIRE(raw);
    [[maybe_unused]] const ssize_t n =
        ::send(raw->descriptor(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
    CHECK(come(port, hello(1, 2)).ok());
  });
  CHECK(peers.ok());
}

TEST_CASE("a rank of another job is not let in and learns nothing") {
  const auto peers = meet([&](int port) {
    Hello stranger = hello(1, 2);
    stranger.token = "another's";
    const Result<Connection> refused = come(port, stranger);
    REQUIRE_FALSE(refused);
    CHECK(refused.errors()[0].message.find("not in") != std::string::npos);
    CHECK(come(port, hello(1, 2)).ok());
  });
  CHECK(peers.ok());
}

TEST_CASE("a rank that is not like rank 0 is refused by name") {
  struct Row {
    Hello other;
    std::string why;
  };
  const auto changed = [](auto change) {
    Hello h = hello(1, 2);
    change(h);
    return h;
  };
  const Row row = GENERATE_COPY(values<Row>({
      {changed([](Hello& h) { h.version = "2"; }),
       "rank 1 on node1 (process 101) runs meshplan 2, rank 0 on node0 (process 100) runs meshplan "
       "1"},
      {changed([](Hello& h) { h.backend = "nccl"; }),
       "rank 1 on node1 (process 101) uses the backend nccl, rank 0 on node0 (process 100) uses "
       "the backend mpi"},
      {changed([](Hello& h) { h.settings = "validate"; }),
       "rank 1 on node1 (process 101) was started with validate, rank 0 on node0 (process 100) was "
       "started with bench"},
      {changed([](Hello& h) { h.profile = "f00"; }),
       "rank 1 on node1 (process 101) reads the profile f00, rank 0 on node0 (process 100) reads "
       "the profile ba5"},
      {changed([](Hello& h) { h.ranks = 3; }),
       "rank 1 on node1 (process 101) counts ranks: 3, rank 0 on node0 (process 100) counts ranks: "
       "2"},
      {changed([](Hello& h) { h.rank = 7; }),
       "rank 7 on node1 (process 101) is no rank of this job"},
      {changed([](Hello& h) { h.rank = -1; }),
       "rank -1 on node1 (process 101) is no rank of this job"},
  }));
  std::string told;
  const auto peers = meet([&](int port) {
    const Result<Connection> refused = come(port, row.other);
    if (!refused) told = refused.errors()[0].message;
  });
  REQUIRE_FALSE(peers);
  CHECK(peers.errors()[0].message == row.why);
  CHECK(told == row.why);
}

TEST_CASE("a rank that does not come is named") {
  const auto peers = meet([](int) {}, milliseconds(300));
  REQUIRE_FALSE(peers);
  CHECK(peers.errors()[0].message.rfind("rank 1 of 2 did not come to port", 0) == 0);
}

TEST_CASE("a port that nobody listens on is an error with its number") {
  int port = 0;
  {
    const Result<Listener> closed = Listener::open("127.0.0.1", 0);
    REQUIRE(closed);
    port = closed->port();
  }
  const auto connection =
      introduce("127.0.0.1", port, hello(1, 2), Clock::now() + milliseconds(300));
  REQUIRE_FALSE(connection);
  CHECK(connection.errors()[0].message ==
        "cannot reach rank 0 at 127.0.0.1:" + std::to_string(port) + ": Connection refused");
}

TEST_CASE("a port that is taken, and an address of another host, are errors") {
  const Result<Listener> first = Listener::open("127.0.0.1", 0);
  REQUIRE(first);
  const Result<Listener> second = Listener::open("127.0.0.1", first->port());
  REQUIRE_FALSE(second);
  CHECK(second.errors()[0].message.find("Address already in use") != std::string::npos);
  CHECK_FALSE(Listener::open("192.0.2.1", 0));  // of documentation alone, RFC 5737
}

TEST_CASE("messages arrive whole, however they are cut") {
  const Result<Listener> listener = Listener::open("127.0.0.1", 0);
  REQUIRE(listener);
  Result<Connection> left =
      connect_to("127.0.0.1", listener->port(), Clock::now() + milliseconds(1000));
  REQUIRE(left);
  std::optional<Connection> right;
  while (!right) right = listener->accept();
  right->trust();
  const std::string large(300'000, 'x');
  bool sent = false;
  std::thread sender([&] {
    Connection& c = left.value();
    sent = c.send("one") && c.send("") && c.send(large);
  });
  std::vector<std::string> messages;
  while (messages.size() < 3) REQUIRE(right->receive(messages));
  sender.join();
  CHECK(sent);
  CHECK(messages == std::vector<std::string>{"one", "", large});
}

TEST_CASE("every kind of message survives being sent") {
  Reply r;
  r.sequence = 7, r.status = 2, r.error = "e", r.note = "n", r.key = "00ff";
  r.seconds = {1e-6, 0.1}, r.other_seconds = {0, 3}, r.host_seconds = {-1};
  r.wrong = 5, r.clock_ratio = 0.5, r.facts = {{"device", "CPU"}};
  Command c;
  c.sequence = 3, c.action = DeviceAction::kRun, c.key = "k", c.operation = "o";
  c.part = 1, c.calls = 2, c.other_calls = 4, c.repetitions = 3, c.deadline_s = 2.5;
  CHECK(std::get<Reply>(*parse_message(to_message(r))) == r);
  CHECK(std::get<Command>(*parse_message(to_message(c))) == c);
  CHECK(std::get<Hello>(*parse_message(to_message(hello(1, 2)))) == hello(1, 2));
  CHECK(std::get<Welcome>(*parse_message(to_message(Welcome{"no"}))) == Welcome{"no"});
  CHECK(std::get<Heartbeat>(*parse_message(to_message(Heartbeat{1, 2}))) == Heartbeat{1, 2});
  for (const char* bad : {"", "{}", "[1]", "{\"type\":\"hello\"}", "{\"type\":\"other\"}",
                          "{\"type\":\"heartbeat\",\"sequence\":1.5,\"step\":0}"}) {
    CHECK_FALSE(parse_message(bad));
  }
}

}  // namespace
}  // namespace meshplan
