#include "probe/coordinator.hpp"

#include <algorithm>
#include <poll.h>

#include "base/text.hpp"
#include "probe/process.hpp"

namespace meshplan {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPollPause{100};
// How long after a failure another rank's death may still turn up as its cause.
constexpr milliseconds kAfterthought{400};
// What a device gets to return after it was told to stop. Short: a launcher that ends the job kills
// within a second, and what went wrong must have been said by then.
constexpr milliseconds kGrace{200};
// How long the running step may go on once the user wants an end.
constexpr milliseconds kPatience{700};

std::string seconds_text(milliseconds t) {
  return human_time(Seconds{static_cast<double>(t.count()) / 1000});
}

}  // namespace

std::string name_of(const Hello& h) {
  return "rank " + std::to_string(h.rank) + " on " + h.host + " (process " +
         process_number(h.process) + ")";
}

Coordinator::Coordinator(std::vector<Peer> peers, std::shared_ptr<RankDevice> device,
                         CoordinatorOptions options)
    : peers_(std::move(peers)), device_(std::move(device)), options_(std::move(options)) {}

Coordinator::~Coordinator() {
  if (alive_ && !ended_) give_up(error("rank 0 ended"));
}

// Stops every rank. Those that no longer listen are ended where this host can do that.
Diagnostic Coordinator::give_up(Diagnostic reason) {
  if (!alive_) return reason;
  alive_ = false;
  Command abort;
  abort.sequence = ++sequence_;
  abort.action = DeviceAction::kAbort;
  const std::string message = to_message(abort);
  const Clock::time_point now = Clock::now();
  for (Peer& peer : peers_) {
    if (!peer.connection) continue;
    const bool listens = now - peer.heard < options_.silence / 2;
    peer.connection->send(message);
    if (!listens) end_process_soon(peer.hello.process);
  }
  device_->abort();
  device_->wait(kGrace);
  return reason;
}

std::optional<Diagnostic> Coordinator::take_message(Peer& peer, const std::string& text,
                                                    const std::string& what) {
  const Result<Message> message = parse_message(text);
  if (message && std::holds_alternative<Heartbeat>(*message)) {
    const auto& beat = std::get<Heartbeat>(*message);
    if (beat.sequence == sequence_) peer.step = beat.step, peer.answers = beat.answers;
    return std::nullopt;
  }
  const Reply* reply = message ? std::get_if<Reply>(&*message) : nullptr;
  if (reply != nullptr && reply->sequence == sequence_ && !peer.reply) {
    peer.reply = *reply;
    return std::nullopt;
  }
  if (reply != nullptr) {
    return error(name_of(peer.hello) + " is at step " + std::to_string(reply->sequence) +
                 " while rank 0 is at step " + std::to_string(sequence_) + ": " + what);
  }
  return error(name_of(peer.hello) + " sent what is no answer during " + what);
}

std::optional<Diagnostic> Coordinator::hear(Peer& peer, const std::string& what) {
  if (!peer.connection) {
    if (!peer.reply) peer.reply = device_->take_reply();
    peer.heard = Clock::now();
    peer.step = device_->step();
    peer.answers = device_->answers();
    return std::nullopt;
  }
  std::vector<std::string> messages;
  const bool open = peer.connection->receive(messages);
  if (!messages.empty()) peer.heard = Clock::now();
  for (const std::string& text : messages) {
    if (auto problem = take_message(peer, text, what)) return problem;
  }
  // A rank that failed says so and goes: what it said counts more than that it is gone.
  if (!open && !peer.reply) return error(name_of(peer.hello) + " died during " + what);
  return std::nullopt;
}

bool Coordinator::all_replied() const {
  return std::all_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.reply; });
}

void Coordinator::wait_for_events() {
  std::vector<pollfd> wait;
  for (const Peer& peer : peers_) {
    if (peer.reply) continue;
    wait.push_back(
        {peer.connection ? peer.connection->descriptor() : device_->descriptor(), POLLIN, 0});
  }
  poll(wait.data(), wait.size(), static_cast<int>(kPollPause.count()));
}

std::optional<Diagnostic> Coordinator::find_silent(const std::string& what) {
  for (const Peer& peer : peers_) {
    if (peer.reply || Clock::now() - peer.heard < options_.silence) continue;
    return error(name_of(peer.hello) + " stopped answering during " + what +
                     ": nothing heard of it for " + seconds_text(options_.silence),
                 "its host may be down, or the process was stopped");
  }
  return std::nullopt;
}

// Time is up. A rank whose device answers nothing at all holds the others up; else the one that got
// fewer calls done.
Diagnostic Coordinator::find_guilty(const std::string& what) {
  const Peer* last = nullptr;
  bool equal = true, all_answer = true;
  for (const Peer& peer : peers_) {
    if (peer.reply) continue;
    if (peer.answers == 0) {
      return error("the device of " + name_of(peer.hello) + " stopped answering during " + what,
                   "nvidia-smi and the kernel's log (Xid) on that host may say why");
    }
    all_answer = all_answer && peer.answers == 1;
    equal = equal && (last == nullptr || last->step == peer.step);
    if (last == nullptr || peer.step < last->step) last = &peer;
  }
  const std::size_t waiting = static_cast<std::size_t>(
      std::count_if(peers_.begin(), peers_.end(), [](const Peer& p) { return !p.reply; }));
  const std::string after = " within " + seconds_text(options_.timeout) + ": " + what;
  const std::string at = " (call " + std::to_string(last->step + 1) + ")";
  if (equal && waiting > 1) {
    return error(waiting_ranks(waiting) + " did not get through" + after + at,
                 all_answer ? "they wait for each other and their devices answer: a link between "
                              "them may be down"
                            : "they wait for each other: a link between them may be down, or other "
                              "work keeps their processors; --timeout gives them longer");
  }
  return error(name_of(last->hello) + " did not get through" + after + at,
               "the others wait for it");
}

std::string Coordinator::waiting_ranks(std::size_t waiting) const {
  constexpr std::size_t kMostNamed = 4;
  std::string names;
  std::size_t named = 0;
  for (const Peer& peer : peers_) {
    if (!peer.reply && named++ < kMostNamed)
      names += (names.empty() ? "" : ", ") + name_of(peer.hello);
  }
  if (named > kMostNamed) names += " and " + std::to_string(named - kMostNamed) + " more";
  return std::to_string(waiting) + " of " + std::to_string(peers_.size()) + " ranks, " + names +
         ",";
}

std::optional<Diagnostic> Coordinator::failed_reply(const std::string& what) {
  for (const Peer& peer : peers_) {
    if (!peer.reply || peer.reply->status != MESHPLAN_PROBE_FAILED) continue;
    return error(name_of(peer.hello) + " failed during " + what + ": " + peer.reply->error);
  }
  return std::nullopt;
}

// What has gone wrong so far; nothing if all is well.
std::optional<Diagnostic> Coordinator::collect(const std::string& what) {
  std::optional<Diagnostic> problem;
  for (Peer& peer : peers_) {
    std::optional<Diagnostic> found = hear(peer, what);
    if (found && !problem) problem = std::move(found);
  }
  if (problem) return problem;
  if (failed_reply(what)) {
    // Another rank's death is often what this one's failure comes from.
    const Clock::time_point until = Clock::now() + kAfterthought;
    while (Clock::now() < until) {
      wait_for_events();
      for (Peer& peer : peers_) {
        if (auto death = hear(peer, what)) return death;
      }
    }
    return failed_reply(what);
  }
  return find_silent(what);
}

Result<Coordinator::Replies> Coordinator::round(Command command, const std::string& what) {
  if (!alive_) return error("a rank was lost before " + what);
  command.sequence = ++sequence_;
  command.deadline_s = static_cast<double>(options_.timeout.count()) / 1000;
  const std::string message = to_message(command);
  const Clock::time_point begin = Clock::now();
  for (Peer& peer : peers_) {
    peer.reply.reset();
    peer.step = 0;
    peer.answers = -1;
    peer.heard = begin;
    if (peer.connection) peer.connection->send(message);
  }
  device_->start(command);
  std::optional<Clock::time_point> wanted_end;
  while (true) {
    if (auto problem = collect(what)) return give_up(std::move(*problem));
    if (all_replied()) break;
    const Clock::time_point now = Clock::now();
    if (options_.interrupted && options_.interrupted() && !wanted_end) wanted_end = now;
    if (wanted_end && now - *wanted_end > kPatience) {
      return give_up(error("interrupted during " + what));
    }
    if (now - begin > options_.timeout) return give_up(find_guilty(what));
    wait_for_events();
  }
  Replies replies;
  for (const Peer& peer : peers_) replies.push_back(*peer.reply);
  return replies;
}

Result<bool> Coordinator::confirm() {
  if (!alive_) return error("a rank was lost");
  for (Peer& peer : peers_) peer.reply.reset();
  const Clock::time_point until = Clock::now() + kAfterthought;
  while (Clock::now() < until) {
    wait_for_events();
    for (Peer& peer : peers_) {
      if (auto death = hear(peer, "the measurements")) return give_up(std::move(*death));
    }
  }
  return true;
}

void Coordinator::end() {
  if (!alive_ || ended_) return;
  Command command;
  command.action = DeviceAction::kEnd;
  ended_ = round(command, "the end").ok();
}

}  // namespace meshplan
