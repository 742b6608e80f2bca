#include "report/trace.hpp"

#include <map>
#include <tuple>

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

// The task that a message feeds: rank, forward or not, chunk, microbatch.
using TaskKey = std::tuple<std::size_t, bool, std::int32_t, std::int32_t>;

class TraceWriter {
 public:
  std::string text(const ToolInfo& tool, std::string_view name, const StepTimeline& t) {
    for (std::size_t r = 0; r < t.ranks.size(); ++r) add_tasks(t.ranks[r], r);
    for (std::size_t r = 0; r < t.ranks.size(); ++r) {
      add_names(r);
      for (const Message& send : t.ranks[r].sends) add_send(send, r);
      add_end(t.ranks[r].reduction, r, "gradient reduction");
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
  void add(const Json& event) {
    if (!events_.empty()) events_ += ",\n";
    events_ += compact(event);
  }
  static Json event(const char* phase, std::size_t rank, Stream stream, double at) {
    return {{"ph", phase}, {"pid", rank}, {"tid", static_cast<int>(stream)}, {"ts", number(at)}};
  }
  static Json slice(std::size_t rank, Stream stream, Seconds start, Seconds end) {
    Json json = event("X", rank, stream, microseconds(start));
    json["dur"] = number(microseconds(end) - microseconds(start));
    return json;
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
      Json json = slice(r, kCompute, e.start, e.end);
      json["name"] = std::string(word(e.task.kind)) + " " + std::to_string(e.task.microbatch);
      json["cat"] = word(e.task.kind);
      json["args"] = {{"microbatch", e.task.microbatch}, {"chunk", e.task.chunk}};
      add(json);
      if (e.task.kind == TaskKind::kBackwardWeight) continue;
      const bool forward = e.task.kind == TaskKind::kForward;
      starts_[{r, forward, e.task.chunk, e.task.microbatch}] = e.start;
    }
  }

  // The message as a slice, and an arrow from it to the task that waits for it.
  void add_send(const Message& send, std::size_t rank) {
    Json json = slice(rank, kSends, send.start, send.end);
    json["name"] = (send.backward ? "gradient " : "activation ") + std::to_string(send.microbatch);
    json["cat"] = "send";
    json["args"] = {{"microbatch", send.microbatch}, {"to_rank", send.to}};
    add(json);
    const auto to = static_cast<std::size_t>(send.to);
    const std::int32_t chunk = send.backward ? send.boundary : send.boundary + 1;
    const auto user = starts_.find({to, !send.backward, chunk, send.microbatch});
    if (user == starts_.end()) return;
    Json leaves = event("s", rank, kSends, microseconds(send.start));
    Json arrives = event("f", to, kCompute, microseconds(user->second));
    arrives["bp"] = "e";
    for (Json* end : {&leaves, &arrives}) {
      (*end)["id"] = arrows_, (*end)["name"] = "message", (*end)["cat"] = "send";
      add(*end);
    }
    ++arrows_;
  }

  void add_end(const Span& span, std::size_t rank, const char* what) {
    if (span.end <= span.start) return;
    Json json = slice(rank, kStepEnd, span.start, span.end);
    json["name"] = what, json["cat"] = "end";
    add(json);
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
