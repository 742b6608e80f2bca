#include "report/trace.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <tuple>

#include "base/check.hpp"
#include "report/json_value.hpp"

namespace meshplan {
namespace {

enum Stream { kCompute = 0, kSends = 1, kStepEnd = 2 };

// The format counts in microseconds, as fractions.
double microseconds(Seconds t) { return t.si() * 1e6; }

std::string_view word(TaskKind kind) {
  switch (kind) {
    case TaskKind::kForward:
      return "forward";
    case TaskKind::kBackward:
      return "backward";
    case TaskKind::kBackwardInput:
      return "input gradient";
    case TaskKind::kBackwardWeight:
      return "weight gradient";
  }
  return "";
}

// What a trace calls names and categories needs no quoting: words and numbers.
std::string number_text(double value) {
  PLAN_CHECK(std::isfinite(value));
  std::array<char, 32> buffer{};
  const auto [end, failure] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  PLAN_CHECK(failure == std::errc{});
  return {buffer.data(), end};
}

// The task that a message feeds: rank, forward or not, chunk, microbatch.
using TaskKey = std::tuple<std::size_t, bool, std::int32_t, std::int32_t>;

class TraceWriter {
 public:
  std::string text(const ToolInfo& tool, std::string_view name, const StepTimeline& t) {
    for (std::size_t r = 0; r < t.ranks.size(); ++r) add_tasks(t.ranks[r], r);
    for (std::size_t r = 0; r < t.ranks.size(); ++r) {
      add_names(r);
      for (const TimedMessage& send : t.ranks[r].sends) add_send(send, r);
      add_end(t.ranks[r].reduction, r, "gradient reduction");
      add_end(t.unpaired, r, "first and last passes, beside no other microbatch's");
      add_end(t.tied_embedding, r, "reduction of the tied embedding");
      add_end(t.optimizer, r, "optimizer step");
      add_end(t.offload, r, "offloading");
    }
    const Json other{{"tool", "meshplan " + std::string(tool.version)}, {"name", name}};
    return "{\"displayTimeUnit\":\"ms\",\"otherData\":" + compact(other) + ",\"traceEvents\":[\n" +
           events_ + "\n]}\n";
  }

 private:
  static std::string compact(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  void add(const Json& event) { add(compact(event)); }
  void add(const std::string& event) {
    if (!events_.empty()) events_ += ",\n";
    events_ += event;
  }
  // Written directly and not by way of a Json: there may be a million of them.
  static std::string event(const char* phase, std::size_t rank, Stream stream, double at) {
    return std::string("{\"ph\":\"") + phase + "\",\"pid\":" + std::to_string(rank) +
           ",\"tid\":" + std::to_string(stream) + ",\"ts\":" + number_text(at);
  }
  static std::string slice(std::size_t rank, Stream stream, const Span& span,
                           const std::string& name, std::string_view category) {
    return event("X", rank, stream, microseconds(span.start)) +
           ",\"dur\":" + number_text(microseconds(span.end) - microseconds(span.start)) +
           ",\"name\":\"" + name + "\",\"cat\":\"" + std::string(category) + "\"";
  }

  void add_names(std::size_t rank) {
    const auto meta = [&](const char* what, Stream stream, const Json& args) {
      add({{"ph", "M"},
           {"pid", rank},
           {"tid", static_cast<int>(stream)},
           {"name", what},
           {"args", args}});
    };
    meta("process_name", kCompute, {{"name", "pipeline rank " + std::to_string(rank)}});
    meta("process_sort_index", kCompute, {{"sort_index", rank}});
    meta("thread_name", kCompute, {{"name", "compute"}});
    meta("thread_name", kSends, {{"name", "sends"}});
    meta("thread_name", kStepEnd, {{"name", "end of the step"}});
  }

  void add_tasks(const RankTimeline& rank, std::size_t r) {
    for (const TimelineEntry& e : rank.tasks) {
      const std::string kind(word(e.task.kind)), microbatch = std::to_string(e.task.microbatch);
      add(slice(r, kCompute, {e.start, e.end}, kind + " " + microbatch, kind) +
          ",\"args\":{\"microbatch\":" + microbatch + ",\"chunk\":" + std::to_string(e.task.chunk) +
          "}}");
      if (e.task.kind == TaskKind::kBackwardWeight) continue;
      const bool forward = e.task.kind == TaskKind::kForward;
      starts_[{r, forward, e.task.chunk, e.task.microbatch}] = e.start;
    }
  }

  // The message as a slice, and an arrow from it to the task that waits for it.
  void add_send(const TimedMessage& send, std::size_t rank) {
    const std::string microbatch = std::to_string(send.microbatch);
    add(slice(rank, kSends, {send.start, send.end},
              (send.backward ? "gradient " : "activation ") + microbatch, "send") +
        ",\"args\":{\"microbatch\":" + microbatch + ",\"to_rank\":" + std::to_string(send.to) +
        "}}");
    const auto to = static_cast<std::size_t>(send.to);
    const std::int32_t chunk = send.backward ? send.boundary : send.boundary + 1;
    const auto user = starts_.find({to, !send.backward, chunk, send.microbatch});
    if (user == starts_.end()) return;
    const std::string message =
        ",\"id\":" + std::to_string(arrows_) + ",\"name\":\"message\",\"cat\":\"send\"}";
    add(event("s", rank, kSends, microseconds(send.start)) + message);
    add(event("f", to, kCompute, microseconds(user->second)) + ",\"bp\":\"e\"" + message);
    ++arrows_;
  }

  void add_end(const Span& span, std::size_t rank, const char* what) {
    if (span.end <= span.start) return;
    add(slice(rank, kStepEnd, span, what, "end") + "}");
  }

  std::string events_;
  std::map<TaskKey, Seconds> starts_;
  std::int64_t arrows_ = 0;
};

}  // namespace

std::string trace_document(const ToolInfo& tool, std::string_view name, const StepTimeline& t) {
  return TraceWriter().text(tool, name, t);
}

}  // namespace meshplan
