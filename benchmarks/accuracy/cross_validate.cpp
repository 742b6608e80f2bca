#include "cross_validate.hpp"

#include <algorithm>
#include <numeric>

#include "base/check.hpp"

namespace meshplan::accuracy {
namespace {

using Places = std::vector<std::size_t>;

constexpr std::size_t kFewer = 3;  // times, in the rough choice

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
    result.shipped = shipped_values();
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
  // Of the constants that some run sees.
  [[nodiscard]] std::map<std::string, double> shipped_values() const {
    std::map<std::string, double> values;
    for (std::size_t k = 0; k < reach_.constants.size(); ++k) {
      if (reach_.tasks[k].empty()) continue;
      const FittedConstant& constant = *reach_.constants[k];
      values[constant.name] = *shipped_value(constant, tasks_[reach_.tasks[k].front()]);
    }
    return values;
  }

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

  // Roughly on few runs, then finely on more. Without a source left out on all of them, and from
  // the values that ship too: the better of the two.
  Refit chosen(const Places& touched, const Source* without,
               const std::vector<const FittedConstant*>& members) const {
    const std::size_t rows = options_.rows_per_source;
    const Refit rough =
        fit_constants(training(tasks_, touched, without, rows / kFewer), members, {},
                      StepSizes{.coarsest = 1.0 / 4, .finest = 1.0 / 16}, options_.fit);
    const auto fine = [&](const std::map<std::string, double>& start) {
      return fit_constants(
          training(tasks_, touched, without, without == nullptr ? tasks_.size() : rows), members,
          start, std::nullopt, options_.fit);
    };
    Refit best = fine(rough.values);
    if (without != nullptr) return best;
    const Refit other = fine(shipped_values());
    return other.loss < best.loss ? other : best;
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
    for (auto& result : predict_all(tasks, options_.fit.threads)) {
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

CrossValidation cross_validate(const std::vector<Task>& tasks,
                               const std::vector<FittedConstant>& constants,
                               const CrossValidateOptions& options) {
  std::vector<Task> scored;
  const auto results = predict_all(tasks, options.fit.threads);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const bool wanted = tasks[i].source->use == Use::kScore && tasks[i].run->step_time;
    if (wanted && can_be_scored(results[i])) scored.push_back(tasks[i]);
  }
  return CrossValidator(std::move(scored), constants, options).run();
}

}  // namespace meshplan::accuracy
