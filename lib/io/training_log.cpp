#include "io/training_log.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/quantity.hpp"
#include "io/log_lines.hpp"

namespace meshplan {
namespace {

std::optional<double> positive_after(std::string_view line, std::string_view key) {
  const std::optional<double> value = number_after(line, key);
  return value && *value > 0 ? value : std::nullopt;
}

std::int64_t count_after(std::string_view line, std::string_view key) {
  const std::optional<double> value = positive_after(line, key);
  return value && *value < 1e12 ? std::llround(*value) : 0;
}

void raise(Bytes& most, std::optional<double> amount, double unit) {
  if (amount && *amount < 1e9) most = std::max(most, ceil_bytes(*amount * unit));
}

constexpr double kMega = 1024.0 * 1024, kGiga = kMega * 1024;

// How far a run had come when a line was printed, where lines tell that instead of a step's time.
struct Progress {
  double done = 0;     // steps, or samples
  double seconds = 0;  // since the run began
};

// What one line says, by kind.
struct Found {
  std::optional<StepReport> report = {};
  std::int64_t global_batch = 0;
  std::optional<Progress> progress = {};
};

// " iteration       10/     100 | consumed samples: ... | elapsed time per iteration (ms): 1234.5 |
// ... global batch size:    64 | ..." (training_log); "elapsed time per iteration (ms):
// 1234.5/1240.1" in code made from it: this interval and the mean.
Found megatron_line(std::string_view line, TrainingLog& log) {
  if (line.find("using world size:") != std::string_view::npos) {
    log.gpus = count_after(line, "using world size:");
    log.dp = count_after(line, "data-parallel size:");
    log.cp = count_after(line, " context-parallel size:");
    log.tp = count_after(line, "tensor-model-parallel size:");
    log.pp = count_after(line, "pipeline-model-parallel size:");
  }
  if (line.find("memory (MB)") != std::string_view::npos) {
    raise(log.max_allocated, positive_after(line, "max allocated:"), kMega);
    raise(log.max_reserved, positive_after(line, "max reserved:"), kMega);
  }
  const std::optional<double> ms = positive_after(line, "elapsed time per iteration (ms):");
  if (!ms) return {};
  return {StepReport{.time = Seconds{*ms * 1e-3}}, count_after(line, "global batch size:")};
}

// "0/40, SamplesPerSec=83.48, MemAllocated=0.26GB, ...": the mean since the third micro-step
// (DeepSpeed before 0.7.7, utils/timer.py with start_step 2), in samples of all ranks' micro-batch.
// As samples of one micro-step are the same all over, their number falls out of what is told.
std::optional<Progress> mean_rate(std::string_view line) {
  constexpr double kStart = 2;
  const std::size_t at = line.find(", SamplesPerSec=");
  const std::optional<double> rate = positive_after(line, ", SamplesPerSec=");
  const std::size_t slash = at == std::string_view::npos ? at : line.rfind('/', at);
  if (!rate || slash == std::string_view::npos) return std::nullopt;
  const Result<std::int64_t> steps = parse_integer(line.substr(slash + 1, at - slash - 1));
  if (!steps || static_cast<double>(*steps) <= kStart) return std::nullopt;
  const double done = static_cast<double>(*steps) - kStart;
  return Progress{done, done / *rate};
}

// "steps: 10 loss: 2.3000 iter time (s): 1.234 samples/sec: 51.864" (PipelineEngine) and
// "... RunningAvgSamplesPerSec=50.1, CurrSamplesPerSec=51.9, MemAllocated=4.1GB, MaxMemAllocated=
// 12.3GB" (ThroughputTimer; the batch is the global one, GB are 2^30 bytes).
Found deepspeed_line(std::string_view line, TrainingLog& log) {
  raise(log.max_allocated, positive_after(line, "MaxMemAllocated="), kGiga);
  if (const auto s = positive_after(line, "iter time (s):"))
    return {StepReport{.time = Seconds{*s}}};
  if (const auto rate = positive_after(line, "CurrSamplesPerSec=")) {
    return {StepReport{.samples_per_s = *rate}};
  }
  return {{}, 0, mean_rate(line)};
}

// "Epoch 0:   1%|1  | 795/77225 [9:07:58<878:01:48, 41.36s/it, loss=3.1, v_num=,
// reduced_train_loss= 3.090, global_step=794.0, consumed_samples=1.63e+6]": NeMo 1 without
// log_step_timing, whose bar has whole seconds
// (pytorch_lightning/callbacks/progress/tqdm_progress.py).
std::optional<Progress> bar_progress(std::string_view line) {
  if (line.find("global_step=") == std::string_view::npos) return std::nullopt;
  const std::size_t open = line.find(" ["), close = line.find('<', open);
  if (open == std::string_view::npos || close == std::string_view::npos) return std::nullopt;
  const std::size_t slash = line.rfind('/', open);
  const std::size_t blank = line.rfind(' ', slash);
  if (slash == std::string_view::npos || blank == std::string_view::npos) return std::nullopt;
  const Result<std::int64_t> steps = parse_integer(line.substr(blank + 1, slash - blank - 1));
  std::string_view clock = line.substr(open + 2, close - open - 2);
  double seconds = 0;
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = clock.find(':');
    const Result<std::int64_t> part = parse_integer(clock.substr(0, end));
    if (!part || *part < 0 || *part > 1'000'000) return std::nullopt;
    seconds = seconds * 60 + static_cast<double>(*part);
    if (end != std::string_view::npos) clock.remove_prefix(end + 1);
  }
  if (!steps || *steps < 1) return std::nullopt;
  return Progress{static_cast<double>(*steps), seconds};
}

// "step: 10  loss: 7.1  grad_norm: ...  memory: 43.12GiB(54.30%)  tps: 5,678  tflops: ...": tokens
// per second and device, peak of what the allocator reserved.
Found torchtitan_line(std::string_view line, TrainingLog& log) {
  if (line.find("step:") == std::string_view::npos) return {};
  const std::optional<double> tps = positive_after(line, "tps:");
  if (!tps) return {};
  raise(log.max_reserved, positive_after(line, "memory:"), kGiga);
  return {StepReport{.tokens_per_s_per_gpu = *tps}};
}

// NeMo 2 prints "name: value", NeMo 1's progress bar "name=value".
std::optional<double> nemo_value(std::string_view line, const std::string& name) {
  const std::optional<double> value = positive_after(line, name + ':');
  return value ? value : positive_after(line, name + '=');
}

// "Training epoch 0, iteration 9/99 | ... | global_batch_size: 512 | ... | train_step_timing in s:
// 12.34"; with NEMO_LOG_MEMORY_USAGE=1 "peak_memory_usage: 6.13e10": bytes that the allocator of
// rank 0 had reserved at most (the bar rounds them to three digits).
Found nemo_line(std::string_view line, TrainingLog& log) {
  const std::optional<double> s = nemo_value(line, "train_step_timing in s");
  if (!s) return {{}, 0, bar_progress(line)};
  if (const std::optional<double> bytes = nemo_value(line, "peak_memory_usage")) {
    raise(log.max_reserved, *bytes / kGiga, kGiga);
  }
  return {StepReport{.time = Seconds{*s}}, count_after(line, "global_batch_size:")};
}

struct Kind {
  LogKind kind;
  Found (*read)(std::string_view line, TrainingLog& log);
};
// In order of preference: Megatron-DeepSpeed prints lines of both.
constexpr auto kKinds = std::to_array<Kind>({{LogKind::kMegatron, megatron_line},
                                             {LogKind::kNemo, nemo_line},
                                             {LogKind::kTorchtitan, torchtitan_line},
                                             {LogKind::kDeepspeed, deepspeed_line}});

// What lies between two lines that tell how far the run had come; a run that began anew begins so
// here too. Clocks of whole seconds are read over spans in which one second is little.
std::vector<StepReport> reports_between(const std::vector<Progress>& all, LogKind kind) {
  constexpr double kShortest = 30;  // seconds of a progress bar: 3 %
  const bool rates = kind == LogKind::kDeepspeed;
  std::vector<StepReport> reports;
  Progress from;
  for (const Progress& p : all) {
    if (p.done <= from.done || p.seconds <= from.seconds) {
      if (p.done < from.done) from = p;
      continue;
    }
    const double done = p.done - from.done, seconds = p.seconds - from.seconds;
    if (!rates && seconds < kShortest) continue;
    reports.push_back(rates ? StepReport{.samples_per_s = done / seconds}
                            : StepReport{.time = Seconds{seconds / done}});
    from = p;
  }
  return reports;
}

// Times of a step are better than rates where a kind prints both.
void keep_one_sort(std::vector<StepReport>& reports) {
  const bool times = std::any_of(reports.begin(), reports.end(),
                                 [](const StepReport& r) { return r.time.si() > 0; });
  if (times) std::erase_if(reports, [](const StepReport& r) { return !(r.time.si() > 0); });
}

double quantile_of(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

std::string_view name_of(LogKind kind) {
  switch (kind) {
    case LogKind::kMegatron:
      return "Megatron-LM";
    case LogKind::kDeepspeed:
      return "DeepSpeed";
    case LogKind::kTorchtitan:
      return "torchtitan";
    case LogKind::kNemo:
      return "NeMo";
  }
  return "";
}

Result<TrainingLog> parse_training_log(std::string_view text, const std::string& file) {
  const std::string plain = without_colours(text);
  const std::vector<LogLine> lines = log_lines(plain);
  for (const Kind& kind : kKinds) {
    TrainingLog log;
    log.file = file;
    log.kind = kind.kind;
    std::set<std::int64_t> batches;
    std::vector<Progress> progress;
    for (const LogLine& line : lines) {
      const Found found = kind.read(line.text, log);
      if (found.progress) progress.push_back(*found.progress);
      if (!found.report) continue;
      log.reports.push_back(*found.report);
      if (found.global_batch > 0) batches.insert(found.global_batch);
    }
    if (log.reports.empty()) log.reports = reports_between(progress, kind.kind);
    if (log.reports.empty()) continue;
    keep_one_sort(log.reports);
    if (batches.size() > 1) {
      return error_at({file},
                      "the global batch changes during the run, from " +
                          std::to_string(*batches.begin()) + " to " +
                          std::to_string(*batches.rbegin()),
                      "give the part of the log with one batch size");
    }
    if (!batches.empty()) log.global_batch = *batches.begin();
    return log;
  }
  return error_at({file}, "no step of a training run is in this log",
                  "logs of Megatron-LM, DeepSpeed, torchtitan and NeMo can be read");
}

std::vector<Seconds> step_times(const TrainingLog& log, std::int64_t global_batch,
                                std::int64_t seq_len, std::int64_t gpus) {
  std::vector<Seconds> times;
  const auto batch = static_cast<double>(global_batch);
  for (const StepReport& r : log.reports) {
    if (r.time.si() > 0) times.push_back(r.time);
    if (r.samples_per_s > 0) times.emplace_back(batch / r.samples_per_s);
    if (r.tokens_per_s_per_gpu > 0) {
      times.emplace_back(batch * static_cast<double>(seq_len) /
                         (r.tokens_per_s_per_gpu * static_cast<double>(gpus)));
    }
  }
  return times;
}

std::size_t warm_up_reports(std::size_t reports) {
  constexpr std::size_t kLeast = 1, kMost = 20;
  return std::clamp(reports / 5, kLeast, kMost);
}

Result<StepTime> steady_step_time(const TrainingLog& log, std::int64_t global_batch,
                                  std::int64_t seq_len, std::int64_t gpus) {
  std::vector<double> times;
  const std::vector<Seconds> all = step_times(log, global_batch, seq_len, gpus);
  for (std::size_t i = warm_up_reports(all.size()); i < all.size(); ++i) {
    times.push_back(all[i].si());
  }
  if (times.empty()) {
    return error_at({log.file}, "only one step is in this log, and the first one is warm-up",
                    "give a longer log");
  }
  std::sort(times.begin(), times.end());
  const double middle = quantile_of(times, 0.5);
  return StepTime{Seconds{middle}, (quantile_of(times, 0.75) - quantile_of(times, 0.25)) / middle,
                  static_cast<std::int64_t>(times.size())};
}

}  // namespace meshplan
