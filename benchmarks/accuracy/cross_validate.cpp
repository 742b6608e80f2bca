#include "cross_validate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.hpp"
#include "minimise.hpp"

namespace meshplan::accuracy {
namespace {

using Places = std::vector<std::size_t>;

constexpr double kLossScale = 0.1;
constexpr double kRidge = 0.01;
constexpr std::size_t kFewer = 3;

// Which tasks a constant touches, once.
struct Reach {
  std::vector<const FittedConstant*> constants;
  std::vector<Places> tasks;  // by constant
  std::vector<Places> of;     // constants, by task
};

Reach reach_of(const std::vector<Task>& tasks, const std::vector<FittedConstant>& constants) {
  Reach reach;
  reach.of.resize(tasks.size());
  for (const FittedConstant& constant : constants) {
    Places touched;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (shipped_value(constant, tasks[i])) touched.push_back(i);
    }
    for (const std::size_t i : touched) reach.of[i].push_back(reach.constants.size());
    reach.constants.push_back(&constant);
    reach.tasks.push_back(std::move(touched));
  }
  return reach;
}

// Constants that some run sees together are chosen together: the numbers of their groups.
Places groups_of(const Reach& reach) {
  Places group(reach.constants.size());
  std::iota(group.begin(), group.end(), std::size_t{0});
  for (const Places& together : reach.of) {
    for (const std::size_t k : together) {
      const std::size_t from = group[k], to = group[together.front()];
      std::replace(group.begin(), group.end(), from, to);
    }
  }
  return group;
}

double log_error(const std::variant<Prediction, Skipped>& result) {
  const Prediction* p = std::get_if<Prediction>(&result);
  // A layout that is legal for one value of a constant is legal for all.
  PLAN_CHECK(p != nullptr);
  return std::log(p->cost.step_time.si() / p->run->step_time->si());
}

// Sources in the order of their first task.
std::vector<const Source*> sources_of(const std::vector<Task>& tasks) {
  std::vector<const Source*> sources;
  for (const Task& task : tasks) {
    if (std::find(sources.begin(), sources.end(), task.source) == sources.end())
      sources.push_back(task.source);
  }
  return sources;
}

// The runs that choose one group of constants, and how well they do so.
class Fit {
 public:
  // Starts at `values`, else at the uninformed ones.
  Fit(std::vector<Task> tasks, std::vector<const FittedConstant*> constants,
      const std::map<std::string, double>& values, int threads)
      : tasks_(std::move(tasks)), constants_(std::move(constants)), threads_(threads) {
    for (const FittedConstant* constant : constants_) {
      Places touched;
      for (std::size_t i = 0; i < tasks_.size(); ++i) {
        if (shipped_value(*constant, tasks_[i])) touched.push_back(i);
      }
      touched_.push_back(std::move(touched));
      const auto start = values.find(constant->name);
      at_.push_back({start == values.end() ? constant->uninformed : start->second, constant->low,
                     constant->high});
    }
    const std::vector<const Source*> sources = sources_of(tasks_);
    source_sizes_.assign(sources.size(), 0);
    for (const Task& task : tasks_) {
      const auto at = std::find(sources.begin(), sources.end(), task.source);
      source_of_.push_back(static_cast<std::size_t>(at - sources.begin()));
      source_sizes_[source_of_.back()] += 1;
    }
  }

  Refit run(StepSizes steps) {
    Refit refit;
    for (std::size_t k = 0; k < at_.size(); ++k) {
      if (touched_[k].empty()) refit.undetermined.push_back(constants_[k]->name);
      apply(k, at_[k].value);
    }
    if (!tasks_.empty()) search(steps);
    for (std::size_t k = 0; k < at_.size(); ++k) refit.values[constants_[k]->name] = at_[k].value;
    return refit;
  }

 private:
  void apply(std::size_t k, double value) {
    for (const std::size_t i : touched_[k]) set_constant(*constants_[k], value, tasks_[i]);
  }

  void search(StepSizes steps) {
    losses_.assign(tasks_.size(), 0);
    Places everything(tasks_.size());
    std::iota(everything.begin(), everything.end(), std::size_t{0});
    look(everything);
    losses_ = trial_;
    Objective objective;
    objective.value = loss(losses_, at_.size(), 0);
    std::size_t moved = 0;
    double tried = 0;
    objective.with = [&](std::size_t k, double x) {
      if (touched_[k].empty()) return objective.value + 1;  // nothing to learn
      apply(k, x);
      look(touched_[k]);
      apply(k, at_[k].value);
      moved = k;
      tried = x;
      return loss(trial_, k, x);
    };
    objective.accept = [&] {
      apply(moved, tried);
      losses_ = trial_;
    };
    minimise(at_, objective, steps);
  }

  void look(const Places& places) {
    trial_ = losses_;
    const auto results = predict_some(tasks_, places, threads_);
    for (std::size_t i = 0; i < places.size(); ++i)
      trial_[places[i]] = robust_loss(log_error(results[i]));
  }

  // With constant `k` at `x`.
  [[nodiscard]] double loss(const std::vector<double>& losses, std::size_t k, double x) const {
    const auto num_sources = static_cast<double>(source_sizes_.size());
    double total = 0;
    for (std::size_t i = 0; i < losses.size(); ++i)
      total += losses[i] / (source_sizes_[source_of_[i]] * num_sources);
    for (std::size_t j = 0; j < at_.size(); ++j) {
      const double value = j == k ? x : at_[j].value;
      const double away = (value - constants_[j]->uninformed) / (at_[j].high - at_[j].low);
      total += kRidge * away * away;
    }
    return total;
  }

  std::vector<Task> tasks_;
  std::vector<const FittedConstant*> constants_;
  int threads_;
  Places source_of_;                  // number of each task's source
  std::vector<double> source_sizes_;  // in tasks
  std::vector<Places> touched_;
  std::vector<Coordinate> at_;
  std::vector<double> losses_, trial_;
};

// Runs that a group of constants touches, without one source, and evenly thinned.
std::vector<Task> training(const std::vector<Task>& tasks, const Places& touched,
                           const Source* without, std::size_t rows_per_source) {
  std::map<const Source*, Places> by_source;
  for (const std::size_t i : touched) {
    if (tasks[i].source != without) by_source[tasks[i].source].push_back(i);
  }
  std::vector<Task> chosen;
  for (const Source* source : sources_of(tasks)) {
    const Places& places = by_source[source];
    const std::size_t n = std::min(places.size(), rows_per_source);
    for (std::size_t i = 0; i < n; ++i) chosen.push_back(tasks[places[i * places.size() / n]]);
  }
  return chosen;
}

class CrossValidator {
 public:
  CrossValidator(std::vector<Task> tasks, const std::vector<FittedConstant>& constants,
                 const CrossValidateOptions& options)
      : tasks_(std::move(tasks)),
        reach_(reach_of(tasks_, constants)),
        group_(groups_of(reach_)),
        options_(options) {}

  CrossValidation run() {
    CrossValidation result;
    for (std::size_t k = 0; k < reach_.constants.size(); ++k) {
      if (reach_.tasks[k].empty()) continue;
      const FittedConstant& constant = *reach_.constants[k];
      result.shipped[constant.name] = *shipped_value(constant, tasks_[reach_.tasks[k].front()]);
    }
    for (const Source* source : sources_of(tasks_)) {
      result.refits.push_back(refit(source));
      for (Prediction& p : predicted_with(result.refits.back(), source))
        result.held_out.push_back(std::move(p));
    }
    result.refits.push_back(refit(nullptr));
    for (const Source* source : sources_of(tasks_)) {
      for (Prediction& p : predicted_with(result.refits.back(), source))
        result.all_sources.push_back(std::move(p));
    }
    return result;
  }

 private:
  // Only groups that the source left out had a say in.
  Refit refit(const Source* without) {
    Refit all;
    if (without != nullptr) all.left_out = without->name;
    for (std::size_t g = 0; g < group_.size(); ++g) {
      std::vector<const FittedConstant*> members;
      Places touched;
      for (std::size_t k = 0; k < group_.size(); ++k) {
        if (group_[k] != g) continue;
        members.push_back(reach_.constants[k]);
        touched.insert(touched.end(), reach_.tasks[k].begin(), reach_.tasks[k].end());
      }
      std::sort(touched.begin(), touched.end());
      touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
      const bool concerned =
          without == nullptr || std::any_of(touched.begin(), touched.end(), [&](std::size_t i) {
            return tasks_[i].source == without;
          });
      if (members.empty() || touched.empty() || !concerned) continue;
      const Refit part = chosen(touched, without, members);
      all.values.insert(part.values.begin(), part.values.end());
      all.undetermined.insert(all.undetermined.end(), part.undetermined.begin(),
                              part.undetermined.end());
    }
    return all;
  }

  // Roughly on few runs, then finely on more.
  Refit chosen(const Places& touched, const Source* without,
               const std::vector<const FittedConstant*>& members) const {
    const std::size_t most = options_.rows_per_source;
    Fit rough(training(tasks_, touched, without, most / kFewer), members, {}, options_.threads);
    const Refit start = rough.run({.coarsest = 1.0 / 4, .finest = 1.0 / 32});
    Fit fine(training(tasks_, touched, without, most), members, start.values, options_.threads);
    return fine.run({.coarsest = 1.0 / 32, .finest = 1.0 / 64});
  }

  std::vector<Prediction> predicted_with(const Refit& refit, const Source* source) {
    Places places;
    std::vector<Task> tasks;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (tasks_[i].source != source) continue;
      tasks.push_back(tasks_[i]);
      for (const std::size_t k : reach_.of[i]) {
        const auto value = refit.values.find(reach_.constants[k]->name);
        if (value != refit.values.end())
          set_constant(*reach_.constants[k], value->second, tasks.back());
      }
    }
    std::vector<Prediction> predictions;
    for (auto& result : predict_all(tasks, options_.threads)) {
      PLAN_CHECK(std::holds_alternative<Prediction>(result));
      predictions.push_back(std::move(std::get<Prediction>(result)));
    }
    return predictions;
  }

  std::vector<Task> tasks_;
  Reach reach_;
  Places group_;
  CrossValidateOptions options_;
};

bool can_be_scored(const std::variant<Prediction, Skipped>& result) {
  return std::holds_alternative<Prediction>(result);
}

}  // namespace

double robust_loss(double log_error) {
  const double scaled = log_error / kLossScale;
  return std::log1p(scaled * scaled);
}

CrossValidation cross_validate(const std::vector<Task>& tasks,
                               const std::vector<FittedConstant>& constants,
                               const CrossValidateOptions& options) {
  std::vector<Task> scored;
  const auto results = predict_all(tasks, options.threads);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const bool wanted = tasks[i].source->use == Use::kScore && tasks[i].run->step_time;
    if (wanted && can_be_scored(results[i])) scored.push_back(tasks[i]);
  }
  return CrossValidator(std::move(scored), constants, options).run();
}

}  // namespace meshplan::accuracy
