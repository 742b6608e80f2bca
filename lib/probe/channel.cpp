#include "probe/channel.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace meshplan {
namespace {

constexpr std::size_t kHeader = 4;  // little-endian length
constexpr int kSendSeconds = 5;
constexpr int kDeadPeerMilliseconds = 15'000;

struct AddressList {
  addrinfo* first = nullptr;
  AddressList() = default;
  AddressList(const AddressList&) = delete;
  AddressList& operator=(const AddressList&) = delete;
  ~AddressList() {
    if (first != nullptr) freeaddrinfo(first);
  }
};

// Empty if it worked, else the reason.
std::string resolve(const std::string& address, int port, bool listening, AddressList& out) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (listening ? AI_PASSIVE : 0);
  const int failure =
      getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &out.first);
  return failure == 0 ? std::string() : std::string(gai_strerror(failure));
}

void set_option(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

// A host that loses power sends no farewell: unanswered bytes end the connection.
void configure(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 3);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kDeadPeerMilliseconds);
  const timeval limit{kSendSeconds, 0};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

Descriptor new_socket(const addrinfo& a) {
  return Descriptor(socket(a.ai_family, a.ai_socktype | SOCK_CLOEXEC, a.ai_protocol));
}

int port_of(int fd) {
  sockaddr_storage name{};
  socklen_t size = sizeof(name);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) return 0;
  std::array<char, NI_MAXSERV> service{};
  if (getnameinfo(reinterpret_cast<sockaddr*>(&name), size, nullptr, 0, service.data(),
                  service.size(), NI_NUMERICSERV) != 0) {
    return 0;
  }
  return std::atoi(service.data());
}

int milliseconds_until(Clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 2000));
}

// One attempt; empty if it worked, else the reason.
std::string try_to_connect(const addrinfo& a, Clock::time_point deadline, Descriptor& out) {
  Descriptor fd = new_socket(a);
  if (fd.get() < 0) return std::strerror(errno);
  const int flags = fcntl(fd.get(), F_GETFL);
  fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK);
  if (connect(fd.get(), a.ai_addr, a.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return std::strerror(errno);
    pollfd wait{fd.get(), POLLOUT, 0};
    if (poll(&wait, 1, milliseconds_until(deadline)) <= 0) return "no answer";
    int failure = 0;
    socklen_t size = sizeof(failure);
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
    if (failure != 0) return std::strerror(failure);
  }
  fcntl(fd.get(), F_SETFL, flags);
  configure(fd.get());
  out = std::move(fd);
  return {};
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& o) noexcept {
  std::swap(fd_, o.fd_);
  return *this;
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

Connection::Connection(Descriptor socket, std::size_t most_bytes)
    : socket_(std::move(socket)), most_bytes_(most_bytes) {}

bool Connection::send(std::string_view message) {
  const auto n = static_cast<std::uint32_t>(message.size());
  std::string frame;
  for (unsigned i = 0; i < kHeader; ++i) frame.push_back(static_cast<char>(n >> (8 * i) & 0xff));
  frame += message;
  std::string_view left = frame;
  while (open_ && !left.empty()) {
    const ssize_t sent = ::send(socket_.get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (sent > 0) left.remove_prefix(static_cast<std::size_t>(sent));
    if (sent < 0 && errno != EINTR) open_ = false;
  }
  return open_;
}

bool Connection::take_messages(std::vector<std::string>& messages, std::size_t most) {
  while (buffer_.size() >= kHeader && messages.size() < most) {
    std::size_t n = 0;
    for (unsigned i = 0; i < kHeader; ++i) {
      n |= static_cast<std::size_t>(static_cast<unsigned char>(buffer_[i])) << (8 * i);
    }
    if (n > most_bytes_) return false;
    if (buffer_.size() < kHeader + n) break;
    messages.push_back(buffer_.substr(kHeader, n));
    buffer_.erase(0, kHeader + n);
  }
  return true;
}

bool Connection::receive(std::vector<std::string>& messages, std::size_t most) {
  std::array<char, 65536> chunk;  // NOLINT: filled by recv
  if (!take_messages(messages, most)) open_ = false;
  // A peer that never stops sending must not keep this rank from everything else, nor fill its
  // memory: what is left stays with the system until the next call.
  std::size_t room = most_bytes_ + chunk.size();
  while (open_ && messages.size() < most && room > 0) {
    const ssize_t n = recv(socket_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    open_ = n > 0;
    if (n > 0) buffer_.append(chunk.data(), static_cast<std::size_t>(n));
    room -= std::min(room, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    // A frame must never grow past its limit while it arrives.
    if (!take_messages(messages, most)) open_ = false;
  }
  return open_;
}

Result<Listener> Listener::open(const std::string& address, int port) {
  AddressList all;
  std::string reason = resolve(address, port, true, all);
  for (const addrinfo* a = all.first; a != nullptr; a = a->ai_next) {
    Descriptor fd = new_socket(*a);
    if (fd.get() >= 0) set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (fd.get() >= 0 && bind(fd.get(), a->ai_addr, a->ai_addrlen) == 0 &&
        listen(fd.get(), SOMAXCONN) == 0) {
      fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
      const int bound = port_of(fd.get());
      return Listener(std::move(fd), bound);
    }
    reason = std::strerror(errno);
  }
  return error("rank 0 cannot listen on " + address + ':' + std::to_string(port) + ": " + reason,
               "rank 0 must run on the host of MASTER_ADDR and the port after MASTER_PORT must be "
               "free; MESHPLAN_RENDEZVOUS=host:port names another");
}

std::optional<Connection> Listener::accept() const {
  Descriptor fd(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (fd.get() < 0) return std::nullopt;
  configure(fd.get());
  return Connection(std::move(fd));
}

Result<Connection> connect_to(const std::string& address, int port, Clock::time_point deadline) {
  constexpr std::chrono::milliseconds kPause{100};
  std::string reason;
  bool known = false;
  do {
    AddressList all;
    reason = resolve(address, port, false, all);
    known = reason.empty();
    for (const addrinfo* a = all.first; a != nullptr; a = a->ai_next) {
      Descriptor fd;
      reason = try_to_connect(*a, deadline, fd);
      if (reason.empty()) return Connection(std::move(fd), kMostMessageBytes);
    }
    std::this_thread::sleep_for(kPause);
  } while (Clock::now() < deadline);
  if (!known) {
    return error("rank 0's host '" + address + "' is not known here: " + reason,
                 "correct MASTER_ADDR, or MESHPLAN_RENDEZVOUS=host:port, on every rank");
  }
  return error("cannot reach rank 0 at " + address + ':' + std::to_string(port) + ": " + reason,
               "did rank 0 start, and may this host connect to that port? "
               "MESHPLAN_RENDEZVOUS=host:port names another");
}

std::string own_address() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "127.0.0.1";
  std::string found;
  for (const ifaddrs* i = all; i != nullptr && found.empty(); i = i->ifa_next) {
    const bool usable = i->ifa_addr != nullptr && i->ifa_addr->sa_family == AF_INET &&
                        (i->ifa_flags & IFF_UP) != 0 && (i->ifa_flags & IFF_LOOPBACK) == 0;
    std::array<char, NI_MAXHOST> text{};
    if (usable && getnameinfo(i->ifa_addr, sizeof(sockaddr_in), text.data(), text.size(), nullptr,
                              0, NI_NUMERICHOST) == 0) {
      found = text.data();
    }
  }
  freeifaddrs(all);
  return found.empty() ? "127.0.0.1" : found;
}

}  // namespace meshplan
