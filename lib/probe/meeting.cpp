#include "probe/meeting.hpp"

#include <algorithm>
#include <poll.h>

namespace meshplan {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGreetingTime{5000};
constexpr std::size_t kMostStrangers = 256;
constexpr int kPollPause = 100;

struct Visitor {
  Connection connection;
  Clock::time_point came = Clock::now();
};

// As long whatever is wrong, so that a guess cannot be timed.
bool same_secret(const std::string& a, const std::string& b) {
  std::size_t different = a.size() ^ b.size();
  for (std::size_t i = 0; i < a.size(); ++i) {
    different |= static_cast<std::size_t>(a[i] ^ (i < b.size() ? b[i] : '\0'));
  }
  return different == 0;
}

// Why a rank of this job may not take part; empty if it may.
std::string objection(const Hello& own, const Hello& h) {
  const auto differs = [&](const char* what, const std::string& theirs, const std::string& ours) {
    return name_of(h) + " " + what + " " + theirs + ", " + name_of(own) + " " + what + " " + ours;
  };
  if (h.version != own.version) return differs("runs meshplan", h.version, own.version);
  if (h.backend != own.backend) return differs("uses the backend", h.backend, own.backend);
  if (h.settings != own.settings) return differs("was started with", h.settings, own.settings);
  if (!h.profile.empty() && !own.profile.empty() && h.profile != own.profile) {
    return differs("reads the profile", h.profile, own.profile);
  }
  if (h.ranks != own.ranks) {
    return differs("counts ranks:", std::to_string(h.ranks), std::to_string(own.ranks));
  }
  if (h.rank < 1 || h.rank >= own.ranks) return name_of(h) + " is no rank of this job";
  return {};
}

std::string missing_ranks(const std::vector<Peer>& peers) {
  constexpr int kMostNamed = 8;
  std::string text;
  int count = 0;
  for (std::size_t r = 1; r < peers.size(); ++r) {
    if (peers[r].connection) continue;
    if (++count <= kMostNamed) text += (text.empty() ? "" : ", ") + std::to_string(r);
  }
  if (count > kMostNamed) text += " and " + std::to_string(count - kMostNamed) + " more";
  return (count == 1 ? "rank " : "ranks ") + text;
}

class Meeting {
 public:
  Meeting(const Listener& listener, const Hello& own) : listener_(listener), own_(own) {
    peers_.resize(static_cast<std::size_t>(own.ranks));
    peers_[0].hello = own;
  }

  Result<std::vector<Peer>> admit(Clock::time_point deadline,
                                  const std::function<bool()>& interrupted) {
    while (present_ < own_.ranks) {
      if (Clock::now() > deadline) {
        return error(missing_ranks(peers_) + " of " + std::to_string(own_.ranks) +
                         " did not come to port " + std::to_string(listener_.port()) + " in time",
                     "did they start, and can they reach this host? --timeout waits longer");
      }
      if (interrupted && interrupted()) return error("interrupted while the ranks meet");
      wait();
      let_in();
      if (auto problem = listen_to_visitors()) return *problem;
    }
    return std::move(peers_);
  }

 private:
  const Listener& listener_;
  const Hello& own_;
  std::vector<Peer> peers_;
  std::int64_t present_ = 1;
  std::vector<Visitor> visitors_;

  void wait() {
    std::vector<pollfd> descriptors{{listener_.descriptor(), POLLIN, 0}};
    for (const Visitor& v : visitors_) {
      descriptors.push_back({v.connection.descriptor(), POLLIN, 0});
    }
    poll(descriptors.data(), descriptors.size(), kPollPause);
  }

  void let_in() {
    while (visitors_.size() < kMostStrangers + static_cast<std::size_t>(own_.ranks)) {
      std::optional<Connection> connection = listener_.accept();
      if (!connection) return;
      visitors_.push_back({std::move(*connection)});
    }
  }

  std::optional<Diagnostic> listen_to_visitors() {
    for (std::size_t i = 0; i < visitors_.size();) {
      std::vector<std::string> messages;
      const bool open = visitors_[i].connection.receive(messages, 1);
      if (!messages.empty()) {
        if (auto problem = greet(visitors_[i], messages.front())) return problem;
      }
      const bool late = Clock::now() - visitors_[i].came > kGreetingTime;
      const bool done = !messages.empty() || !open || late;
      if (done) {
        visitors_.erase(visitors_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    return std::nullopt;
  }

  std::optional<Diagnostic> greet(Visitor& visitor, const std::string& text) {
    const Result<Message> message = parse_message(text);
    const Hello* hello = message ? std::get_if<Hello>(&*message) : nullptr;
    // Not one of us: no answer, not even a refusal.
    if (hello == nullptr || !same_secret(hello->token, own_.token)) return std::nullopt;
    std::string reason = objection(own_, *hello);
    Peer* peer = reason.empty() ? &peers_[static_cast<std::size_t>(hello->rank)] : nullptr;
    if (peer != nullptr && peer->connection) {
      reason = name_of(*hello) + " came twice: as " + name_of(peer->hello) + " too";
    }
    visitor.connection.send(to_message(Welcome{reason}));
    if (!reason.empty()) {
      return error(reason, "every rank must be started with the same program and arguments");
    }
    visitor.connection.trust();
    peer->hello = *hello;
    peer->connection.emplace(std::move(visitor.connection));
    ++present_;
    return std::nullopt;
  }
};

}  // namespace

Result<std::vector<Peer>> admit_ranks(const Listener& listener, const Hello& own,
                                      Clock::time_point deadline,
                                      const std::function<bool()>& interrupted) {
  return Meeting(listener, own).admit(deadline, interrupted);
}

Result<Connection> introduce(const std::string& address, int port, const Hello& own,
                             Clock::time_point deadline) {
  Result<Connection> reached = connect_to(address, port, deadline);
  if (!reached) return reached;
  Connection connection = std::move(reached).value();
  connection.send(to_message(own));
  std::vector<std::string> messages;
  while (messages.empty()) {
    // Rank 0's first command may come with its welcome: it is left for whoever serves it.
    const bool open = connection.receive(messages, 1);
    if (!messages.empty()) break;
    if (!open) {
      return error(
          "rank 0 at " + address + ':' + std::to_string(port) + " let " + name_of(own) + " not in",
          "it belongs to another job, or something else listens there");
    }
    if (Clock::now() > deadline) return error("rank 0 did not answer the greeting in time");
    pollfd wait{connection.descriptor(), POLLIN, 0};
    poll(&wait, 1, kPollPause);
  }
  const Result<Message> message = parse_message(messages.front());
  const Welcome* welcome = message ? std::get_if<Welcome>(&*message) : nullptr;
  if (welcome == nullptr) return error("what listens at the rendezvous is not meshplan");
  if (!welcome->refused.empty()) return error(welcome->refused);
  return connection;
}

}  // namespace meshplan
