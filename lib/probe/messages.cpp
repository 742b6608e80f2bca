#include "probe/messages.hpp"

#include <array>

#include "probe/json_fields.hpp"

namespace meshplan {

// Field lists are found by the types they belong to.
template <class A>
void fields(A& a, Hello& h) {
  a("token", h.token), a("version", h.version), a("backend", h.backend);
  a("settings", h.settings), a("profile", h.profile), a("rank", h.rank), a("ranks", h.ranks);
  a("local_rank", h.local_rank), a("host", h.host), a("process", h.process);
}
template <class A>
void fields(A& a, Welcome& w) {
  a("refused", w.refused);
}
template <class A>
void fields(A& a, Command& c) {
  a("sequence", c.sequence), a("action", c.action), a("key", c.key);
  a("operation", c.operation), a("part", c.part), a("calls", c.calls);
  a("other_calls", c.other_calls);
  a("repetitions", c.repetitions), a("deadline_s", c.deadline_s);
}
template <class A>
void fields(A& a, Reply& r) {
  a("sequence", r.sequence), a("status", r.status), a("error", r.error), a("note", r.note);
  a("key", r.key), a("seconds", r.seconds), a("other_seconds", r.other_seconds);
  a("host_seconds", r.host_seconds), a("disturbed", r.disturbed), a("wrong", r.wrong),
      a("clock_ratio", r.clock_ratio);
  a("facts", r.facts);
}
template <class A>
void fields(A& a, Heartbeat& h) {
  a("sequence", h.sequence), a("step", h.step), a("answers", h.answers);
}

namespace {

using probe_json::BadJson;
using probe_json::Json;

constexpr std::array<const char*, std::variant_size_v<Message>> kTypes{
    "hello", "welcome", "command", "reply", "heartbeat"};

template <std::size_t I = 0>
Message read_type(const std::string& type, const Json& j) {
  if constexpr (I == kTypes.size()) {
    throw BadJson{"has an unknown type"};
  } else {
    if (type != kTypes[I]) return read_type<I + 1>(type, j);
    std::variant_alternative_t<I, Message> message;
    probe_json::from_json(j, message);
    return message;
  }
}

template <class T>
std::string text_of(const T& message) {
  Json j = {{"type", kTypes[Message(message).index()]}};
  j.update(probe_json::to_json(message));
  return j.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string to_message(const Hello& h) { return text_of(h); }
std::string to_message(const Welcome& w) { return text_of(w); }
std::string to_message(const Command& c) { return text_of(c); }
std::string to_message(const Reply& r) { return text_of(r); }
std::string to_message(const Heartbeat& h) { return text_of(h); }

Result<Message> parse_message(std::string_view text) {
  try {
    const Json j = probe_json::parse(text);
    std::string type;
    probe_json::Reader reader(j);
    reader("type", type);
    return read_type(type, j);
  } catch (const BadJson& problem) {
    return error("a message " + problem.message);
  }
}

}  // namespace meshplan
