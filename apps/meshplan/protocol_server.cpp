#include "protocol_server.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <poll.h>
#include <string_view>
#include <unistd.h>

#include "child_process.hpp"
#include "command.hpp"

namespace meshplan {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Revisions whose messages these are, the newest first: what is offered where another is asked for.
constexpr std::array<std::string_view, 3> kRevisions{"2025-06-18", "2025-03-26", "2024-11-05"};

enum RpcError {
  kParseError = -32700,
  kInvalidRequest = -32600,
  kMethodNotFound = -32601,
  kInvalidParams = -32602,
};

constexpr std::string_view kInstructions =
    "meshplan predicts step time, memory and communication of training a large model on a cluster "
    "and finds the best combination of data, tensor, pipeline, context and expert parallelism. "
    "'list' names the models and clusters that ship; 'plan' searches, with a proof; 'estimate' "
    "costs one strategy; 'explain' says why another one is slower; 'import' reads scripts, "
    "configurations and logs, 'lint' checks them. Files that you have as text go into 'files'.";

// A folder that goes with the call it was made for.
class CallFolder {
 public:
  CallFolder() = default;
  CallFolder(CallFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  CallFolder& operator=(CallFolder&&) = delete;
  CallFolder(const CallFolder&) = delete;
  CallFolder& operator=(const CallFolder&) = delete;
  ~CallFolder() {
    std::error_code failure;
    if (!path_.empty()) fs::remove_all(path_, failure);
  }

  // False where the files cannot be written.
  bool fill(const CallFiles& files) {
    std::error_code failure;
    std::string name = (fs::temp_directory_path(failure) / "meshplan-call-XXXXXX").string();
    if (failure || mkdtemp(name.data()) == nullptr) return false;
    path_ = name;
    for (const auto& [file, text] : files) {
      const fs::path path = fs::path(path_) / file;
      fs::create_directories(path.parent_path(), failure);
      std::ofstream out(path, std::ios::binary);
      out << text;
      if (!out.flush()) return false;
    }
    return true;
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct RunningCall {
  json id;
  CallFolder folder;
  ChildProcess process;
};

struct WaitingCall {
  json id;
  ToolCall call;
};

json text_result(const std::string& text, bool failed) {
  return {{"content", json::array({{{"type", "text"}, {"text", text}}})}, {"isError", failed}};
}

std::string without_end(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// A plan that does not exist is an answer; input that is wrong is none.
json call_result(ChildProcess& process) {
  const int code = process.exit_code();
  const bool failed = code != kExitOk && code != kExitNoPlan;
  if (process.output().size() > ChildProcess::kMostOutput) {
    return text_result("the answer is longer than this server passes on: ask for less", true);
  }
  const json document = json::parse(process.output(), nullptr, false);
  if (document.is_discarded() || !document.is_object()) {
    const std::string said = process.errors().empty() ? process.output() : process.errors();
    return text_result(without_end(said), failed || code == kExitNoPlan);
  }
  // Of another form than the tool's answers: what went wrong is said in words.
  if (failed) return text_result(without_end(process.errors()), true);
  json result = text_result(without_end(process.output()), false);
  result["structuredContent"] = document;
  return result;
}

class ProtocolSession {
 public:
  ProtocolSession(const ProtocolTools& tools, int in, int out)
      : tools_(tools), in_(in), out_(out) {}

  void run() {
    while (!done_) {
      wait();
      finish_calls();
      start_calls();
    }
  }

 private:
  void wait() {
    std::vector<pollfd> all{{in_, POLLIN, 0}};
    for (const auto& call : running_) {
      for (const int descriptor : call->process.descriptors()) {
        all.push_back({descriptor, POLLIN, 0});  // a negative one is left out by poll()
      }
    }
    if (poll(all.data(), all.size(), -1) < 0) {
      done_ = errno != EINTR;
      return;
    }
    for (std::size_t i = 1; i < all.size(); ++i) {
      if (all[i].revents != 0) running_[(i - 1) / 2]->process.read_some((i - 1) % 2);
    }
    if (all.front().revents != 0) read_input();
  }

  void read_input() {
    std::array<char, 65536> buffer;
    const ssize_t n = read(in_, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) {
      done_ = true;
      return;
    }
    received_.append(buffer.data(), static_cast<std::size_t>(n));
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = received_.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      take(std::string_view(received_).substr(begin, end - begin));
    }
    received_.erase(0, begin);
    if (received_.size() > ProtocolServer::kLongestMessage) {
      fail(nullptr, kInvalidRequest, "the message is too long");
      done_ = true;
    }
  }

  void take(std::string_view line) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    const json message = json::parse(line, nullptr, false);
    if (message.is_discarded()) return fail(nullptr, kParseError, "the line is no JSON");
    const bool is_call = message.is_object() && message.value("jsonrpc", json()) == "2.0";
    if (!is_call) return fail(nullptr, kInvalidRequest, "no JSON-RPC 2.0 message");
    if (!message.contains("method")) return;  // an answer; nothing is ever asked here
    const json& method = message["method"];
    const json id = message.value("id", json());
    const bool wants_answer = id.is_string() || id.is_number_integer();
    if (!method.is_string() || (message.contains("id") && !wants_answer)) {
      return fail(nullptr, kInvalidRequest, "a request needs a method and an id");
    }
    const json params = message.value("params", json::object());
    const auto name = method.get<std::string>();
    if (wants_answer) return answer_request(id, name, params);
    if (name == "notifications/cancelled" && params.is_object()) {
      cancel(params.value("requestId", json()));
    }
  }

  void answer_request(const json& id, const std::string& method, const json& params) {
    if (!params.is_object()) return fail(id, kInvalidParams, "'params' must be an object");
    if (method == "initialize") return answer(id, introduction(params));
    if (method == "ping") return answer(id, json::object());
    if (method == "tools/list") return answer(id, {{"tools", tools_.list()}});
    if (method == "tools/call") return call_tool(id, params);
    fail(id, kMethodNotFound, "there is no method '" + method + "'");
  }

  static json introduction(const json& params) {
    const json wanted = params.value("protocolVersion", json());
    const bool known =
        std::any_of(kRevisions.begin(), kRevisions.end(),
                    [&](std::string_view revision) { return wanted == std::string(revision); });
    return {{"protocolVersion", known ? wanted : json(kRevisions.front())},
            {"capabilities", {{"tools", json::object()}}},
            {"serverInfo", {{"name", "meshplan"}, {"version", MESHPLAN_VERSION}}},
            {"instructions", kInstructions}};
  }

  void call_tool(const json& id, const json& params) {
    const json name = params.value("name", json());
    if (!name.is_string() || !tools_.has(name.get<std::string>())) {
      return fail(id, kInvalidParams, "there is no such tool");
    }
    if (is_in_use(id)) return fail(id, kInvalidRequest, "a request of this id still runs");
    Result<ToolCall> call =
        tools_.call(name.get<std::string>(), params.value("arguments", json::object()));
    if (!call) return answer(id, text_result(without_end(to_text(call.errors())), true));
    waiting_.push_back({id, std::move(call.value())});
  }

  [[nodiscard]] bool is_in_use(const json& id) const {
    return std::any_of(waiting_.begin(), waiting_.end(),
                       [&](const WaitingCall& call) { return call.id == id; }) ||
           std::any_of(running_.begin(), running_.end(),
                       [&](const auto& call) { return call->id == id; });
  }

  void start_calls() {
    while (running_.size() < ProtocolServer::kMostCalls && !waiting_.empty()) {
      WaitingCall next = std::move(waiting_.front());
      waiting_.pop_front();
      CallFolder folder;
      if (!next.call.files.empty() && !folder.fill(next.call.files)) {
        answer(next.id, text_result("the call's files cannot be written here", true));
        continue;
      }
      ChildProcess process(next.call.words, folder.path());
      running_.push_back(std::make_unique<RunningCall>(
          RunningCall{next.id, std::move(folder), std::move(process)}));
    }
  }

  void finish_calls() {
    std::erase_if(running_, [&](const auto& call) {
      if (!call->process.at_end()) return false;
      answer(call->id, call_result(call->process));
      return true;
    });
  }

  // Nothing is answered to what was cancelled.
  void cancel(const json& id) {
    std::erase_if(waiting_, [&](const WaitingCall& call) { return call.id == id; });
    std::erase_if(running_, [&](const auto& call) { return call->id == id; });
  }

  void answer(const json& id, const json& result) {
    send({{"jsonrpc", "2.0"}, {"id", id}, {"result", result}});
  }
  void fail(const json& id, int code, const std::string& message) {
    send({{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", code}, {"message", message}}}});
  }

  void send(const json& message) {
    const std::string line = message.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    for (std::string_view rest = line; !rest.empty();) {
      const ssize_t n = write(out_, rest.data(), rest.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {  // nobody reads any more
        done_ = true;
        return;
      }
      rest.remove_prefix(static_cast<std::size_t>(n));
    }
  }

  const ProtocolTools& tools_;
  int in_, out_;
  bool done_ = false;
  std::string received_;
  std::deque<WaitingCall> waiting_;
  std::vector<std::unique_ptr<RunningCall>> running_;
};

}  // namespace

int ProtocolServer::run() {
  ProtocolSession(tools_, in_, out_).run();
  return kExitOk;
}

}  // namespace meshplan
