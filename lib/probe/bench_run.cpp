#include "probe/bench_run.hpp"

#include <algorithm>
#include <map>

#include "probe/agenda.hpp"

namespace meshplan {
namespace {

constexpr double kMostOfBudget = 0.1;            // for one operation
constexpr double kCallsPerOperation = 10;        // warm-up, the fewest repetitions, the check
constexpr double kMostOfBudgetSteady = 1.0 / 3;  // for all steady runs together

// Collectives of one kind and group, whatever their size.
std::string family(CollectiveOperation c) {
  c.bytes = Bytes{1};
  return operation_line(c);
}

// The backend fills in how many nodes a group touches.
Operation without_nodes(Operation op) {
  if (RankGroup* group = group_of(op)) group->nodes = 0;
  return op;
}

class Run {
 public:
  Run(Backend& backend, const BenchOptions& options, const BenchEvents& events, SamplesFile before)
      : backend_(backend), options_(options), events_(events), begin_(options.clock()) {
    outcome_.file = std::move(before);
    outcome_.resumed = outcome_.file.samples.size();
    outcome_.file.machine = backend.machine();
    for (const Sample& s : outcome_.file.samples) remember(s);
  }

  BenchOutcome through(const std::vector<Operation>& agenda) {
    for (std::size_t i = 0; i < agenda.size(); ++i) {
      if (known_.count(operation_line(without_nodes(agenda[i]))) > 0) continue;
      report(i, agenda);
      BenchEnd end = why_stop();
      if (end == BenchEnd::kInterrupted && !all_there(agenda[i])) end = BenchEnd::kFailed;
      if (end != BenchEnd::kComplete) {
        outcome_.not_reached = agenda.size() - i;
        return finish(end);
      }
      if (!measure(agenda[i])) {
        outcome_.not_reached = agenda.size() - i;
        return finish(BenchEnd::kFailed);
      }
    }
    return finish(complete_repetitions());
  }

 private:
  Backend& backend_;
  const BenchOptions& options_;
  const BenchEvents& events_;
  Seconds begin_;
  Seconds steady_{};  // spent on steady runs
  BenchOutcome outcome_;
  std::map<std::string, bool> known_;
  // The largest message of each family and its time.
  std::map<std::string, std::pair<Bytes, Seconds>> largest_;

  [[nodiscard]] Seconds elapsed() const { return options_.clock() - begin_; }

  BenchOutcome finish(BenchEnd end) {
    outcome_.end = end;
    const auto& all = outcome_.file.samples;
    outcome_.short_samples = static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [this](const Sample& s) { return is_short(s); }));
    return std::move(outcome_);
  }

  [[nodiscard]] BenchEnd why_stop() const {
    if (options_.interrupted && options_.interrupted()) return BenchEnd::kInterrupted;
    return elapsed() >= options_.budget ? BenchEnd::kOutOfTime : BenchEnd::kComplete;
  }

  // A wish to end may come from a launcher that noticed a dead rank before rank 0 did.
  bool all_there(const Operation& next) {
    const Result<bool> there = backend_.confirm();
    if (there) return true;
    outcome_.problems = there.errors();
    outcome_.problems.front().message += ", before " + describe(next);
    return false;
  }

  void report(std::size_t i, const std::vector<Operation>& agenda) const {
    if (!events_.progress) return;
    BenchProgress p;
    p.done = i, p.total = agenda.size();
    p.elapsed = elapsed();
    const Seconds budget_left = std::max(Seconds{0}, options_.budget - p.elapsed);
    p.left = budget_left;
    if (i > 0) {
      const double to_do = static_cast<double>(agenda.size() - i) / static_cast<double>(i);
      p.left = std::min(budget_left, p.elapsed * to_do);
    }
    p.next = &agenda[i];
    events_.progress(p);
  }

  void remember(const Sample& s) {
    known_[operation_line(without_nodes(s.operation))] = true;
    const auto* c = std::get_if<CollectiveOperation>(&s.operation);
    if (c == nullptr) return;
    CollectiveOperation plain = *c;
    plain.group.nodes = 0;
    auto& [bytes, time] = largest_[family(plain)];
    if (c->bytes > bytes) bytes = c->bytes, time = s.median;
  }

  // What one call will take, from the largest measured message of its kind; 0: nothing known.
  [[nodiscard]] Seconds expected(const Operation& op) const {
    const auto* c = std::get_if<CollectiveOperation>(&op);
    if (c == nullptr) return Seconds{0};
    const auto at = largest_.find(family(*c));
    if (at == largest_.end() || at->second.first >= c->bytes) return Seconds{0};
    return at->second.second * (c->bytes.si() / at->second.first.si());
  }

  [[nodiscard]] bool is_short(const Sample& s) const {
    return repetitions_of(s) < options_.measure.repetitions &&
           !std::holds_alternative<OverlapOperation>(s.operation);
  }

  // Everything was measured: with what is left of the time, operations that were too long for all
  // their repetitions have them after all.
  BenchEnd complete_repetitions() {
    const auto whole = [this](const Sample& s) {
      const auto calls = static_cast<double>(s.calls);
      const auto repetitions = static_cast<double>(options_.measure.repetitions);
      return s.median * calls * (repetitions + kCallsPerOperation);
    };
    std::vector<std::size_t> shorter;
    for (std::size_t i = 0; i < outcome_.file.samples.size(); ++i) {
      if (is_short(outcome_.file.samples[i])) shorter.push_back(i);
    }
    std::sort(shorter.begin(), shorter.end(), [&](std::size_t a, std::size_t b) {
      return whole(outcome_.file.samples[a]) < whole(outcome_.file.samples[b]);
    });
    for (const std::size_t i : shorter) {
      Sample& sample = outcome_.file.samples[i];
      if (elapsed() + whole(sample) > options_.budget) break;
      if (why_stop() == BenchEnd::kInterrupted) {
        return all_there(sample.operation) ? BenchEnd::kInterrupted : BenchEnd::kFailed;
      }
      if (!measure_again(sample)) return BenchEnd::kFailed;
    }
    return BenchEnd::kComplete;
  }

  // All repetitions of it in place of the few; its check and its steady run stand.
  bool measure_again(Sample& sample) {
    MeasureOptions how = options_.measure;
    how.time_limit = options_.budget;
    how.check = false;
    how.steady.reset();
    Result<Sample> again = backend_.measure(without_nodes(sample.operation), how);
    if (!again) {
      if (!backend_.alive()) outcome_.problems = again.errors();
      return backend_.alive();
    }
    Sample whole = std::move(again).value();
    whole.correctness = sample.correctness;
    whole.steady = sample.steady;
    if (whole.note.empty()) whole.note = sample.note;
    sample = std::move(whole);
    return keep();
  }

  bool keep() {
    if (!events_.keep) return true;
    const Result<bool> kept = events_.keep(outcome_.file);
    if (!kept) outcome_.problems = kept.errors();
    return kept.ok();
  }

  // The options for one operation: a steady run where it fills the device and there is time for it.
  MeasureOptions options_for(const Operation& op) const {
    MeasureOptions how = options_.measure;
    if (!how.steady) return how;
    const Seconds all = steady_ + how.steady->most;
    const bool time = all <= options_.budget * kMostOfBudgetSteady &&
                      elapsed() + how.steady->most <= options_.budget;
    if (!time || !fills_device(op)) how.steady.reset();
    return how;
  }

  // False if nothing can be measured any more.
  bool measure(const Operation& op) {
    if (const std::optional<std::string> reason = backend_.why_not(op)) {
      outcome_.skipped.push_back({op, *reason});
      return true;
    }
    const Seconds time = expected(op) * kCallsPerOperation;
    if (time > options_.budget * kMostOfBudget || elapsed() + time > options_.budget) {
      outcome_.skipped.push_back({op, "would take too much of the time"});
      return true;
    }
    Result<Sample> sample = backend_.measure(op, options_for(op));
    if (!sample) {
      if (!backend_.alive()) {
        outcome_.problems = sample.errors();
        return false;
      }
      outcome_.skipped.push_back({op, sample.errors().front().message});
      return true;
    }
    remember(*sample);
    if (sample->steady) steady_ += sample->steady->lasted;
    outcome_.file.samples.push_back(std::move(sample).value());
    return keep();
  }
};

}  // namespace

std::optional<std::string> why_not_resume(const Machine& before, const Machine& now) {
  if (before.backend != now.backend) {
    return "it was measured with the backend '" + before.backend + "', this is '" + now.backend +
           "'";
  }
  if (before.ranks.size() != now.ranks.size() || before.nodes != now.nodes) {
    return "it was measured with " + std::to_string(before.ranks.size()) + " ranks on " +
           std::to_string(before.nodes) + " nodes, these are " + std::to_string(now.ranks.size()) +
           " on " + std::to_string(now.nodes);
  }
  for (std::size_t r = 0; r < now.ranks.size(); ++r) {
    if (before.ranks[r].device != now.ranks[r].device) {
      return "it was measured on " + before.ranks[r].device + ", this is " + now.ranks[r].device;
    }
  }
  for (const auto& [name, version] : now.versions) {
    const auto at = before.versions.find(name);
    if (at == before.versions.end() || at->second != version) {
      return "it was measured with another version of " + name;
    }
  }
  return std::nullopt;
}

BenchOutcome run_bench(Backend& backend, const std::vector<Operation>& agenda, SamplesFile before,
                       const BenchOptions& options, const BenchEvents& events) {
  return Run(backend, options, events, std::move(before)).through(agenda);
}

}  // namespace meshplan
