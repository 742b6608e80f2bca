#include "probe/bench_run.hpp"

#include <algorithm>
#include <map>

namespace meshplan {
namespace {

constexpr double kMostOfBudget = 0.1;      // for one operation
constexpr double kCallsPerOperation = 10;  // warm-up, the fewest repetitions, the check

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
    return finish(BenchEnd::kComplete);
  }

 private:
  Backend& backend_;
  const BenchOptions& options_;
  const BenchEvents& events_;
  Seconds begin_;
  BenchOutcome outcome_;
  std::map<std::string, bool> known_;
  // The largest message of each family and its time.
  std::map<std::string, std::pair<Bytes, Seconds>> largest_;

  [[nodiscard]] Seconds elapsed() const { return options_.clock() - begin_; }

  BenchOutcome finish(BenchEnd end) {
    outcome_.end = end;
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
    Result<Sample> sample = backend_.measure(op, options_.measure);
    if (!sample) {
      if (!backend_.alive()) {
        outcome_.problems = sample.errors();
        return false;
      }
      outcome_.skipped.push_back({op, sample.errors().front().message});
      return true;
    }
    remember(*sample);
    outcome_.file.samples.push_back(std::move(sample).value());
    if (!events_.keep) return true;
    const Result<bool> kept = events_.keep(outcome_.file);
    if (!kept) outcome_.problems = kept.errors();
    return kept.ok();
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
