// Any bytes on the control channel: as a stream that arrives in pieces, and as one message.
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz/fuzz.hpp"
#include "probe/channel.hpp"
#include "probe/job.hpp"
#include "probe/messages.hpp"

namespace meshplan::fuzz {
namespace {

void check_message(std::string_view text) {
  const Result<Message> message = parse_message(text);
  require_value_or_errors(message);
  if (!message.ok()) return;
  const std::string written = std::visit([](const auto& m) { return to_message(m); }, *message);
  const Result<Message> again = parse_message(written);
  require(again.ok() && *again == *message);
}

// Whatever arrives, no frame is longer than a stranger may send, and the connection says so once.
void check_stream(std::string_view bytes) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  Connection connection{Descriptor(ends[0])};
  Descriptor sender(ends[1]);
  bool open = true;
  while (open && !bytes.empty()) {
    const std::size_t piece = 1 + static_cast<unsigned char>(bytes.front()) % bytes.size();
    const ssize_t sent = ::send(sender.get(), bytes.data(), piece, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) break;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
    std::vector<std::string> messages;
    open = connection.receive(messages);
    for (const std::string& m : messages) {
      require(m.size() <= kMostGreetingBytes);
      check_message(m);
    }
  }
}

}  // namespace
}  // namespace meshplan::fuzz

MESHPLAN_FUZZ_TARGET(messages) {
  using namespace meshplan;
  const std::string_view text = fuzz::as_text(data, size);
  fuzz::check_message(text);
  fuzz::check_stream(text);
  const Result<HostPort> place = parse_host_port(text);
  fuzz::require_value_or_errors(place);
  static_cast<void>(first_host(text));
  return 0;
}
