#pragma once
// One rank's device: runs commands through the plug-in on a thread of its own, so that nothing a
// driver or a peer does can keep the rank from answering. Private to this library.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "probe/channel.hpp"
#include "probe/job.hpp"
#include "probe/messages.hpp"
#include "probe/plugin.hpp"

namespace meshplan {

class RankDevice {
 public:
  RankDevice(std::shared_ptr<Plugin> plugin, Job job);
  RankDevice(const RankDevice&) = delete;
  RankDevice& operator=(const RankDevice&) = delete;
  ~RankDevice();  // leaves a thread that is stuck behind

  // Before the first command, once the job is known better.
  void set_job(const Job& job);

  // Runs one command, or any other work of the plug-in's thread. Nothing may be running.
  void start(const Command& command);
  void start(std::int64_t sequence, std::function<Reply()> work);

  // Readable once the reply is there.
  [[nodiscard]] int descriptor() const;
  [[nodiscard]] std::optional<Reply> take_reply();
  [[nodiscard]] bool busy() const;
  [[nodiscard]] std::int64_t step() const;

  // Whether the device still answers while a command runs for long: 1 yes, 0 no, -1 not known
  // (yet). Asks it on another thread, now and then.
  [[nodiscard]] std::int64_t answers();

  // Asks the running command to return; the plug-in's own abort runs beside it.
  void abort();
  // Waits for the running command. False if it did not return in time.
  bool wait(std::chrono::milliseconds limit);

  [[nodiscard]] Plugin& plugin() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

[[nodiscard]] std::string to_hex(const unsigned char* data, std::size_t size);
// False unless the text is `size` bytes exactly.
bool from_hex(const std::string& text, unsigned char* data, std::size_t size);

}  // namespace meshplan
