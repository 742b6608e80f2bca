#include "compare/log_step.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace meshplan {
namespace {

double quantile_of(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// Timers that make up a term. Of the sets of one term the first that the log has any of counts.
struct TimerSet {
  StepTerm term;
  std::string_view names;  // between blanks
};
// Names: Megatron-LM megatron/training/training.py, core/pipeline_parallel/schedules.py and
// p2p_communication.py, core/optimizer/; until 2022 megatron/training.py, whose "backward-..."
// reductions are after the backward pass. DeepSpeed runtime/engine.py: sums over the microbatches
// of a step ("fwd", until 2023 "forward"); those of a single microbatch end in "_microstep".
constexpr std::array kSets{
    TimerSet{StepTerm::kForward, "forward-compute fwd forward"},
    TimerSet{StepTerm::kBackward, "backward-compute bwd_inner backward_inner"},
    TimerSet{StepTerm::kForwardBackward, "forward-backward"},
    TimerSet{StepTerm::kOptimizer, "optimizer step"},
    TimerSet{StepTerm::kDataParallel,
             "all-grads-sync params-all-gather bwd_allreduce backward_allreduce "
             "backward-reduce-model-grads backward-gather-model-params"},
    TimerSet{StepTerm::kDataParallel,
             "grads-all-reduce grads-reduce-scatter params-all-gather layernorm-grads-all-reduce "
             "embedding-grads-all-reduce backward-params-all-reduce "
             "backward-layernorm-all-reduce backward-embedding-all-reduce"},
    TimerSet{StepTerm::kPipelineWait,
             "forward-recv forward-send backward-recv backward-send forward-send-forward-recv "
             "forward-send-backward-recv backward-send-forward-recv backward-send-backward-recv "
             "forward-backward-send-forward-backward-recv"},
    TimerSet{StepTerm::kDataLoading, "batch-generator batch_input"},
    TimerSet{StepTerm::kCheckpointing, "save-checkpoint save-checkpoint-non-persistent"}};

bool has_word(std::string_view words, std::string_view word) {
  for (std::size_t at = words.find(word); at != std::string_view::npos;
       at = words.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool begins = at == 0 || words[at - 1] == ' ';
    if (begins && (end == words.size() || words[end] == ' ')) return true;
  }
  return false;
}

const LogTimer* find(const std::vector<LogTimer>& timers, std::string_view name) {
  const auto at =
      std::find_if(timers.begin(), timers.end(), [&](const LogTimer& t) { return t.name == name; });
  return at == timers.end() ? nullptr : &*at;
}

// The optimizer's timer surrounds the gathers of updated parameters.
void take_gathers_out(const std::vector<LogTimer>& timers, MeasuredTerm& optimizer) {
  const LogTimer* gathers = find(timers, "params-all-gather");
  if (gathers == nullptr || optimizer.source != "optimizer") return;
  const Seconds none{};
  optimizer.time.least = std::max(optimizer.time.least - gathers->most, none);
  optimizer.time.most = std::max(optimizer.time.most - gathers->most, none);
  optimizer.source += " less params-all-gather";
}

}  // namespace

Result<SteadySteps> steady_steps(const TrainingLog& log, std::int64_t global_batch,
                                 std::int64_t seq_len, std::int64_t gpus) {
  const std::vector<Seconds> all = step_times(log, global_batch, seq_len, gpus);
  const std::size_t warm_up = std::min(warm_up_reports(all.size()), all.size());
  std::vector<double> times;
  for (std::size_t i = warm_up; i < all.size(); ++i) times.push_back(all[i].si());
  if (times.empty()) {
    return error_at({log.file}, "only one step is in this log, and the first one is warm-up",
                    "give a longer log");
  }
  std::sort(times.begin(), times.end());
  const double upper = quantile_of(times, 0.75);
  const double far =
      std::max(upper + 3 * (upper - quantile_of(times, 0.25)), 1.2 * quantile_of(times, 0.5));
  SteadySteps steps;
  const auto kept = std::upper_bound(times.begin(), times.end(), far);
  std::vector<double> steady(times.begin(), kept);
  const double median = quantile_of(steady, 0.5);
  steps.median = Seconds{median};
  steps.spread = (quantile_of(steady, 0.75) - quantile_of(steady, 0.25)) / median;
  steps.reports = static_cast<std::int64_t>(steady.size());
  steps.warm_up = static_cast<std::int64_t>(warm_up);
  steps.outliers = static_cast<std::int64_t>(times.size() - steady.size());
  for (auto at = kept; at != times.end(); ++at) {
    steps.stalls += Seconds{(*at - median) / static_cast<double>(times.size())};
  }
  return steps;
}

std::vector<MeasuredTerm> terms_of(const std::vector<LogTimer>& timers) {
  std::vector<MeasuredTerm> terms;
  for (const TimerSet& set : kSets) {
    if (!terms.empty() && terms.back().term == set.term) continue;  // an earlier set has it
    MeasuredTerm term{.term = set.term, .time = {}, .source = {}};
    for (const LogTimer& timer : timers) {
      if (!has_word(set.names, timer.name)) continue;
      term.time.least += timer.least;
      term.time.most += timer.most;
      term.source += (term.source.empty() ? "" : " + ") + timer.name;
    }
    if (term.source.empty()) continue;
    if (term.term == StepTerm::kOptimizer) take_gathers_out(timers, term);
    // The gathers alone are not the reductions: the sums of single ones have both.
    if (term.source == "params-all-gather" && set.names.find("all-grads-sync") == 0) continue;
    terms.push_back(std::move(term));
  }
  return terms;
}

}  // namespace meshplan
