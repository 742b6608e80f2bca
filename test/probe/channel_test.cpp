// The control channel on a hostile network: who may come, and what strangers can do.
#include "probe/channel.hpp"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>

#include "probe/meeting.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

using std::chrono::milliseconds;

Hello hello(std::int64_t rank) {
  Hello h;
  h.token = "the job's";
  h.version = "1";
  h.backend = "mpi";
  h.settings = "bench";
  h.rank = rank, h.ranks = 2;
  h.host = "node" + std::to_string(rank);
  h.process = "boot|ns|" + std::to_string(100 + rank) + "|1";
  return h;
}

Result<Connection> stranger(int port) {
  return connect_to("127.0.0.1", port, Clock::now() + milliseconds(2000));
}

void push(const Connection& c, std::string_view bytes) {
  [[maybe_unused]] const ssize_t n =
      ::send(c.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

// Rank 0 meets one other rank, whose connection `visit` returns, while strangers do what they like.
// Gives the time that it took.
milliseconds meeting_with(const std::function<void(int port)>& strangers) {
  Result<Listener> listener = Listener::open("127.0.0.1", 0);
  REQUIRE(listener);
  const int port = listener->port();
  bool in = false;
  std::thread visitors([&] {
    strangers(port);
    in = introduce("127.0.0.1", port, hello(1), Clock::now() + milliseconds(20'000)).ok();
  });
  const Clock::time_point begin = Clock::now();
  const auto peers = admit_ranks(*listener, hello(0), begin + milliseconds(20'000), {});
  visitors.join();
  CHECK(peers.ok());
  CHECK(in);
  return std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
}

std::int64_t peak_kibibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST_CASE("the channel listens on the address that it was told, and on no other") {
  const Result<Listener> listener = Listener::open("127.0.0.1", 0);
  REQUIRE(listener);
  sockaddr_in name{};
  socklen_t size = sizeof(name);
  REQUIRE(getsockname(listener->descriptor(), reinterpret_cast<sockaddr*>(&name), &size) == 0);
  CHECK(ntohl(name.sin_addr.s_addr) == INADDR_LOOPBACK);
  // Another address of the same host.
  CHECK_FALSE(connect_to("127.0.0.2", listener->port(), Clock::now() + milliseconds(200)));
  CHECK(stranger(listener->port()));
}

TEST_CASE("the port is closed once every rank is there") {
  int port = 0;
  {
    Result<Listener> listener = Listener::open("127.0.0.1", 0);
    REQUIRE(listener);
    port = listener->port();
    bool introduced = false;  // Catch's assertions are for one thread
    std::thread rank([&introduced, port] {
      introduced = introduce("127.0.0.1", port, hello(1), Clock::now() + milliseconds(5000)).ok();
    });
    CHECK(admit_ranks(*listener, hello(0), Clock::now() + milliseconds(5000), {}).ok());
    rank.join();
    CHECK(introduced);
  }
  CHECK_FALSE(connect_to("127.0.0.1", port, Clock::now() + milliseconds(200)));
}

TEST_CASE("strangers that come and say nothing do not keep a rank out") {
  std::vector<Connection> silent;
  const auto took = meeting_with([&](int port) {
    for (int i = 0; i < 200; ++i) {
      if (auto c = stranger(port)) silent.push_back(std::move(c).value());
    }
  });
  CHECK(silent.size() == 200);
  CHECK(took < milliseconds(5000));
}

TEST_CASE("more silent strangers than there is room for hold a rank up for seconds only") {
  std::vector<Connection> silent;
  const auto took = meeting_with([&](int port) {
    for (int i = 0; i < 300; ++i) {
      if (auto c = stranger(port)) silent.push_back(std::move(c).value());
    }
  });
  CHECK(took < milliseconds(12'000));
}

TEST_CASE("a greeting that drips in is cut off") {
  const Result<Listener> listener = Listener::open("127.0.0.1", 0);
  REQUIRE(listener);
  bool cut = false;
  std::thread dripping([&, port = listener->port()] {
    Result<Connection> c = stranger(port);
    if (!c) return;
    std::vector<std::string> messages;
    push(c.value(), std::string("\xff\x0f\x00\x00", 4));
    for (int i = 0; i < 100 && !cut; ++i) {
      push(c.value(), "x");
      std::this_thread::sleep_for(milliseconds(100));
      cut = !c.value().receive(messages);
    }
  });
  CHECK_FALSE(admit_ranks(*listener, hello(0), Clock::now() + milliseconds(8000), {}));
  dripping.join();
  CHECK(cut);
}

TEST_CASE("a stranger that never stops sending is shown the door, and takes no memory") {
  const std::int64_t before = peak_kibibytes();
  const std::string flood = GENERATE(std::string(1 << 20, '\0'),  // empty messages
                                     std::string(1 << 20, '\xff'), std::string(1 << 20, '{'));
  std::vector<std::thread> floods;
  const auto took = meeting_with([&](int port) {
    for (int i = 0; i < 4; ++i) {
      floods.emplace_back([port, &flood] {
        Result<Connection> c = stranger(port);
        std::vector<std::string> none;
        for (int n = 0; c.ok() && n < 64 && c.value().receive(none); ++n) push(c.value(), flood);
      });
    }
    std::this_thread::sleep_for(milliseconds(100));
  });
  for (std::thread& t : floods) t.join();
  CHECK(took < milliseconds(6000));
  CHECK(peak_kibibytes() - before < 64 * 1024);
}

TEST_CASE("what one peer sends in one go is bounded, and none of it is lost") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  Connection left{Descriptor(ends[0])}, right{Descriptor(ends[1])};
  constexpr std::size_t kMessages = 20'000;
  std::thread sender([&] {
    for (std::size_t i = 0; i < kMessages; ++i) left.send(std::to_string(i));
  });
  std::size_t next = 0, most = 0;
  while (next < kMessages) {
    std::vector<std::string> messages;
    REQUIRE(right.receive(messages));
    most = std::max(most, messages.size());
    for (const std::string& m : messages) {
      if (m != std::to_string(next)) FAIL(m);
      ++next;
    }
  }
  sender.join();
  CHECK(most <= (kMostGreetingBytes + 2 * 65536) / 4);
}

TEST_CASE("a frame that is larger than a peer may send ends the connection before it is read") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  Connection stranger{Descriptor(ends[0])};
  const Descriptor other(ends[1]);
  const std::string frame("\x01\x40\x00\x00", 4);  // 16 KiB and one byte
  REQUIRE(::send(other.get(), frame.data(), frame.size(), 0) == 4);
  std::vector<std::string> messages;
  CHECK_FALSE(stranger.receive(messages));
  CHECK(messages.empty());
}

TEST_CASE("peers that vanish in the middle of a frame are gone, and nothing of it counts") {
  for (const std::size_t bytes : {1U, 3U, 4U, 10U}) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    Connection connection{Descriptor(ends[0])};
    {
      const Descriptor other(ends[1]);
      const std::string frame("\x10\x00\x00\x00{\"type\":\"hello\"", 19);
      REQUIRE(::send(other.get(), frame.data(), bytes, 0) == static_cast<ssize_t>(bytes));
    }
    std::vector<std::string> messages;
    CHECK_FALSE(connection.receive(messages));
    CHECK(messages.empty());
    CHECK_FALSE(connection.send("hello"));
  }
}

TEST_CASE("a host that is not known is an error with its name and what to correct") {
  const auto reached = connect_to("no-such-host.invalid", 29501, Clock::now() + milliseconds(200));
  REQUIRE_FALSE(reached);
  const Diagnostic& d = reached.errors().front();
  CHECK(d.message.rfind("rank 0's host 'no-such-host.invalid' is not known here: ", 0) == 0);
  CHECK(d.hint.find("MASTER_ADDR") != std::string::npos);
}

TEST_CASE("bombs of brackets and of keys are no messages") {
  CHECK_FALSE(parse_message(std::string(1 << 20, '[')));
  std::string keys = "{\"type\":\"hello\"";
  for (int i = 0; i < 100'000; ++i) keys += ",\"k" + std::to_string(i) + "\":1";
  CHECK_FALSE(parse_message(keys + "}"));
}

}  // namespace
}  // namespace meshplan
