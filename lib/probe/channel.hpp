#pragma once
// The ranks' own TCP channel: texts framed by their length. It carries commands, heartbeats and
// errors; measured data never goes through it.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace meshplan {

using Clock = std::chrono::steady_clock;

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& o) noexcept : fd_(o.fd_) { o.fd_ = -1; }
  Descriptor& operator=(Descriptor&& o) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

// Until its greeting was accepted a peer may be anybody: it gets little room.
inline constexpr std::size_t kMostGreetingBytes = 16 * 1024;
inline constexpr std::size_t kMostMessageBytes = 16 * 1024 * 1024;

class Connection {
 public:
  explicit Connection(Descriptor socket, std::size_t most_bytes = kMostGreetingBytes);

  // False once the peer is gone.
  bool send(std::string_view message);
  // Appends the messages that have arrived, without waiting. False once the peer is gone or sent
  // what is no message; messages that came before that are still appended. At most `most` of them:
  // the others stay for the next call.
  bool receive(std::vector<std::string>& messages, std::size_t most = SIZE_MAX);
  void trust() { most_bytes_ = kMostMessageBytes; }
  [[nodiscard]] int descriptor() const { return socket_.get(); }

 private:
  Descriptor socket_;
  std::size_t most_bytes_;
  std::string buffer_;
  bool open_ = true;

  [[nodiscard]] bool take_messages(std::vector<std::string>& messages, std::size_t most);
};

class Listener {
 public:
  // Listens on that address alone. Port 0: any free one.
  static Result<Listener> open(const std::string& address, int port);
  [[nodiscard]] std::optional<Connection> accept() const;
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] int descriptor() const { return socket_.get(); }

 private:
  Listener(Descriptor socket, int port) : socket_(std::move(socket)), port_(port) {}
  Descriptor socket_;
  int port_;
};

// Tries until the deadline: the other side may start later.
Result<Connection> connect_to(const std::string& address, int port, Clock::time_point deadline);

// An address of this host that other hosts can reach, as far as that can be known.
[[nodiscard]] std::string own_address();

}  // namespace meshplan
