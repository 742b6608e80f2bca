#include "probe/worker.hpp"

#include <poll.h>

namespace meshplan {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBeat{500};
constexpr milliseconds kWindDown{200};  // what a device gets to return after it was told to stop
// Rank 0 notices first, as it knows more: this rank gives up by itself only if rank 0 is gone too.
constexpr milliseconds kSpare{6000};
// After the wish to end: rank 0 gets the time to say goodbye.
constexpr milliseconds kGoodbye{3000};

class Worker {
 public:
  Worker(Connection& connection, RankDevice& device, milliseconds timeout)
      : connection_(connection), device_(device), timeout_(timeout) {}

  Result<bool> serve(const std::function<bool()>& interrupted) {
    while (true) {
      if (auto problem = read_commands()) return stop(std::move(*problem));
      send_reply();
      if (ended_) return true;
      send_heartbeat();
      const Clock::time_point now = Clock::now();
      if (device_.busy() && now - started_ > timeout_ + kSpare) {
        return stop(error("rank 0 did not end a step that takes too long"));
      }
      if (interrupted && interrupted() && !wanted_end_) wanted_end_ = now;
      if (wanted_end_ && now - *wanted_end_ > kGoodbye) return stop(error("interrupted"));
      wait();
    }
  }

 private:
  Connection& connection_;
  RankDevice& device_;
  milliseconds timeout_;
  Clock::time_point started_ = Clock::now(), beaten_ = Clock::now();
  std::optional<Clock::time_point> wanted_end_;
  Command running_;
  bool ended_ = false;

  void wait() {
    pollfd descriptors[] = {{connection_.descriptor(), POLLIN, 0},
                            {device_.descriptor(), POLLIN, 0}};
    poll(descriptors, 2, static_cast<int>(kBeat.count()) / 2);
  }

  Diagnostic stop(Diagnostic reason) {
    device_.abort();
    device_.wait(kWindDown);
    return reason;
  }

  std::optional<Diagnostic> read_commands() {
    std::vector<std::string> messages;
    const bool open = connection_.receive(messages);
    for (const std::string& text : messages) {
      const Result<Message> message = parse_message(text);
      const Command* command = message ? std::get_if<Command>(&*message) : nullptr;
      if (command == nullptr) return error("rank 0 sent what is no command");
      if (command->action == DeviceAction::kAbort) return error("stopped by rank 0");
      if (device_.busy()) return error("rank 0 sent a command before the last one was done");
      running_ = *command;
      started_ = Clock::now();
      device_.start(*command);
    }
    if (!open) return error("the connection to rank 0 is lost");
    return std::nullopt;
  }

  void send_reply() {
    const std::optional<Reply> reply = device_.take_reply();
    if (!reply) return;
    connection_.send(to_message(*reply));
    ended_ = running_.action == DeviceAction::kEnd;
  }

  void send_heartbeat() {
    const Clock::time_point now = Clock::now();
    if (now - beaten_ < kBeat) return;
    beaten_ = now;
    connection_.send(to_message(Heartbeat{running_.sequence, device_.step(), device_.answers()}));
  }
};

}  // namespace

Result<bool> serve_rank_zero(Connection& connection, RankDevice& device, milliseconds timeout,
                             const std::function<bool()>& interrupted) {
  return Worker(connection, device, timeout).serve(interrupted);
}

}  // namespace meshplan
