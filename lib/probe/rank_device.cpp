#include "probe/rank_device.hpp"

#include <array>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>

#include "probe/samples_file.hpp"

namespace meshplan {
namespace {

class ErrorText {
 public:
  operator meshplan_probe_text() { return {text_.data(), text_.size()}; }  // NOLINT: by design
  [[nodiscard]] std::string text() const { return text_.data(); }

 private:
  std::array<char, 1024> text_{};
};

// What the plug-in's thread works with.
struct Device {
  std::shared_ptr<Plugin> plugin;
  Job job;
  std::int64_t progress = 0;   // written by the plug-in
  std::int32_t cancelled = 0;  // read by it
  std::atomic<void*> handle{nullptr};
};

Reply failed(const std::string& reason) {
  Reply r;
  r.status = MESHPLAN_PROBE_FAILED;
  r.error = reason;
  return r;
}

Reply begin(Device& d) {
  ErrorText text;
  Reply r;
  const meshplan_probe_job job{d.job.rank,        d.job.ranks, d.job.local_rank,
                               d.job.local_ranks, &d.progress, &d.cancelled};
  void* handle = nullptr;
  r.status = d.plugin->table().begin(&job, &handle, text);
  d.handle = handle;
  if (r.status == MESHPLAN_PROBE_OK) {
    const auto tell = [](void* context, const char* key, const char* value) {
      static_cast<Reply*>(context)->facts[key] = value;
    };
    r.status = d.plugin->table().describe(handle, tell, &r, text);
  }
  if (r.status == MESHPLAN_PROBE_OK && d.job.rank == 0) {
    std::array<unsigned char, MESHPLAN_PROBE_KEY_SIZE> key{};
    r.status = d.plugin->table().make_key(handle, key.data(), text);
    r.key = to_hex(key.data(), key.size());
  }
  r.error = text.text();
  return r;
}

Reply connect(Device& d, const Command& c) {
  std::array<unsigned char, MESHPLAN_PROBE_KEY_SIZE> key{};
  if (!from_hex(c.key, key.data(), key.size())) return failed("the key of rank 0 is no key");
  ErrorText text;
  Reply r;
  r.status = d.plugin->table().connect(d.handle, key.data(), text);
  r.error = text.text();
  return r;
}

Reply prepare(Device& d, const Command& c) {
  const Result<Operation> op = parse_operation(c.operation);
  if (!op) return failed(op.errors().front().message);
  const meshplan_probe_operation operation = to_abi(*op, d.job.rank, d.job.ranks);
  ErrorText text;
  Reply r;
  r.status = d.plugin->table().prepare(d.handle, &operation, text);
  r.error = text.text();
  // What this rank understood, for rank 0 to compare.
  r.note = operation_line(*op);
  return r;
}

Reply run(Device& d, const Command& c) {
  constexpr std::int64_t kMost = 1'000'000;
  if (c.repetitions < 1 || c.repetitions > kMost || c.calls < 1 || c.calls > kMost ||
      c.other_calls < 1 || c.other_calls > kMost) {
    return failed("a number of repetitions that makes no sense");
  }
  const auto n = static_cast<std::size_t>(c.repetitions);
  Reply r;
  r.seconds.assign(n, 0);
  r.other_seconds.assign(n, 0);
  r.host_seconds.assign(n, -1);
  r.disturbed.assign(n, 0);
  const meshplan_probe_run what{static_cast<std::int32_t>(c.part),
                                c.calls,
                                c.other_calls,
                                c.repetitions,
                                r.seconds.data(),
                                r.other_seconds.data(),
                                r.host_seconds.data(),
                                r.disturbed.data()};
  ErrorText text;
  r.status = d.plugin->table().run(d.handle, &what, text);
  r.error = text.text();
  r.clock_ratio = d.plugin->table().clock_ratio(d.handle);
  return r;
}

Reply check(Device& d) {
  ErrorText note, text;
  Reply r;
  r.status = d.plugin->table().check(d.handle, &r.wrong, note, text);
  r.note = note.text();
  r.error = text.text();
  return r;
}

Reply execute(Device& d, const Command& c) {
  switch (c.action) {
    case DeviceAction::kBegin:
      return begin(d);
    case DeviceAction::kConnect:
      return connect(d, c);
    case DeviceAction::kPrepare:
      return prepare(d, c);
    case DeviceAction::kRun:
      return run(d, c);
    case DeviceAction::kCheck:
      return check(d);
    case DeviceAction::kFinish:
      d.plugin->table().finish(d.handle);
      return {};
    case DeviceAction::kEnd:
      d.plugin->table().end(d.handle);
      return {};
    case DeviceAction::kAbort:
      return failed("stopped");
  }
  return {};
}

}  // namespace

struct RankDevice::State {
  Device device;
  Descriptor done{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex;
  std::condition_variable changed;
  std::function<Reply()> work;
  std::optional<Reply> reply;
  std::int64_t sequence = 0;
  bool running = false, stopping = false;
  Clock::time_point started, asked;
  bool asking = false;
  std::int64_t answers = -1;
};

RankDevice::RankDevice(std::shared_ptr<Plugin> plugin, Job job)
    : state_(std::make_shared<State>()) {
  state_->device.plugin = std::move(plugin);
  state_->device.job = std::move(job);
  // The thread owns the state too: if it is stuck it outlives this object.
  std::thread([state = state_] {
    std::unique_lock lock(state->mutex);
    while (true) {
      state->changed.wait(lock, [&] { return state->work || state->stopping; });
      if (state->stopping) return;
      const std::function<Reply()> work = std::exchange(state->work, nullptr);
      lock.unlock();
      Reply reply = work();
      lock.lock();
      reply.sequence = state->sequence;
      state->reply = std::move(reply);
      state->running = false;
      state->changed.notify_all();
      const std::uint64_t one = 1;
      [[maybe_unused]] const ssize_t n = write(state->done.get(), &one, sizeof(one));
    }
  }).detach();
}

RankDevice::~RankDevice() {
  const std::lock_guard lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
}

void RankDevice::set_job(const Job& job) {
  const std::lock_guard lock(state_->mutex);
  state_->device.job = job;
}

void RankDevice::start(const Command& command) {
  start(command.sequence,
        [state = state_.get(), command] { return execute(state->device, command); });
}

void RankDevice::start(std::int64_t sequence, std::function<Reply()> work) {
  const std::lock_guard lock(state_->mutex);
  PLAN_CHECK(!state_->running);
  __atomic_store_n(&state_->device.progress, 0, __ATOMIC_RELAXED);
  state_->sequence = sequence;
  state_->work = std::move(work);
  state_->running = true;
  state_->started = Clock::now();
  state_->answers = -1;
  state_->reply.reset();
  state_->changed.notify_all();
}

int RankDevice::descriptor() const { return state_->done.get(); }

std::optional<Reply> RankDevice::take_reply() {
  const std::lock_guard lock(state_->mutex);
  if (!state_->reply) return std::nullopt;
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = read(state_->done.get(), &count, sizeof(count));
  return std::exchange(state_->reply, std::nullopt);
}

bool RankDevice::busy() const {
  const std::lock_guard lock(state_->mutex);
  return state_->running;
}

std::int64_t RankDevice::step() const {
  return __atomic_load_n(&state_->device.progress, __ATOMIC_RELAXED);
}

std::int64_t RankDevice::answers() {
  constexpr std::chrono::milliseconds kLong{1500}, kPause{1000}, kPatience{3000};
  const std::lock_guard lock(state_->mutex);
  const Clock::time_point now = Clock::now();
  void* handle = state_->device.handle;
  const auto ask = state_->device.plugin->table().answers;
  if (!state_->running || handle == nullptr || ask == nullptr) return -1;
  if (state_->asking) return now - state_->asked > kPatience ? 0 : state_->answers;
  if (now - state_->started < kLong || now - state_->asked < kPause) return state_->answers;
  state_->asking = true;
  state_->asked = now;
  std::thread([state = state_, ask, handle] {
    const int answer = ask(handle);
    const std::lock_guard done(state->mutex);
    state->asking = false;
    state->answers = answer;
  }).detach();
  return state_->answers;
}

void RankDevice::abort() {
  __atomic_store_n(&state_->device.cancelled, 1, __ATOMIC_RELAXED);
  // May block as long as the command itself.
  std::thread([state = state_] {
    void* handle = state->device.handle;
    if (handle != nullptr) state->device.plugin->table().abort(handle);
  }).detach();
}

bool RankDevice::wait(std::chrono::milliseconds limit) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, limit, [&] { return !state_->running; });
}

Plugin& RankDevice::plugin() const { return *state_->device.plugin; }

std::string to_hex(const unsigned char* data, std::size_t size) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    text.push_back(kDigits[data[i] >> 4]);
    text.push_back(kDigits[data[i] & 15]);
  }
  return text;
}

bool from_hex(const std::string& text, unsigned char* data, std::size_t size) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (text.size() != 2 * size) return false;
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t high = kDigits.find(text[2 * i]), low = kDigits.find(text[2 * i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return false;
    data[i] = static_cast<unsigned char>(high * 16 + low);
  }
  return true;
}

}  // namespace meshplan
