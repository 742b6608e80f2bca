#include "fit.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.hpp"
#include "calibrate/levenberg_marquardt.hpp"

namespace meshplan::accuracy {
namespace {

using Vector = LeastSquares::Vector;
using Places = std::vector<std::size_t>;

// Of a constant's range, for derivatives: wide enough to look past single kernels' kinks.
constexpr double kDifference = 1.0 / 128;

// Coordinates are shares of the constants' ranges.
class Problem {
 public:
  Problem(std::vector<Task> tasks, std::vector<const FittedConstant*> constants,
          const FitOptions& options)
      : tasks_(std::move(tasks)), constants_(std::move(constants)), options_(options) {
    everything_.resize(tasks_.size());
    std::iota(everything_.begin(), everything_.end(), std::size_t{0});
    for (const FittedConstant* constant : constants_) {
      touched_.emplace_back();
      for (const std::size_t i : everything_) {
        if (shipped_value(*constant, tasks_[i])) touched_.back().push_back(i);
      }
    }
    squares_.weights = source_weights();
    squares_.anchor = squares_.ridge = Vector(size());
    for (std::size_t k = 0; k < size(); ++k) {
      squares_.anchor[k] = share(k, constant(k).uninformed);
      for (const std::size_t i : touched_[k])
        squares_.ridge[k] += options.ridge * squares_.weights[i];
    }
    squares_.lowest = Vector(size());
    squares_.highest = Vector(size(), 1);
    squares_.scale = options.loss_scale;
    squares_.errors = [this](const Vector& x) { return errors(x); };
    squares_.derivatives = [this](const Vector& x, const Vector& e) { return derivatives(x, e); };
  }

  Problem(const Problem&) = delete;  // its functions hold its address
  Problem& operator=(const Problem&) = delete;

  [[nodiscard]] std::size_t size() const { return constants_.size(); }
  [[nodiscard]] const FittedConstant& constant(std::size_t k) const { return *constants_[k]; }
  [[nodiscard]] bool is_told(std::size_t k) const { return !touched_[k].empty(); }
  [[nodiscard]] bool has_runs() const { return !tasks_.empty(); }
  [[nodiscard]] const LeastSquares& squares() const { return squares_; }

  [[nodiscard]] double share(std::size_t k, double value) const {
    const FittedConstant& c = constant(k);
    return (value - c.low) / (c.high - c.low);
  }
  [[nodiscard]] double value(std::size_t k, double share) const {
    const FittedConstant& c = constant(k);
    return c.low + share * (c.high - c.low);
  }

  void set(std::size_t k, double share) {
    for (const std::size_t i : touched_[k]) set_constant(constant(k), value(k, share), tasks_[i]);
  }

  Vector errors(const Vector& x) {
    for (std::size_t k = 0; k < size(); ++k) set(k, x[k]);
    Vector e(tasks_.size());
    look(everything_, e);
    return e;
  }

  // The errors `e` at x, where coordinate k alone moves to `to`.
  Vector errors_with(const Vector& x, const Vector& e, std::size_t k, double to) {
    Vector moved = e;
    set(k, to);
    look(touched_[k], moved);
    set(k, x[k]);
    return moved;
  }

 private:
  Vector source_weights() const {
    const std::vector<const Source*> sources = sources_of(tasks_);
    Vector weights(tasks_.size());
    for (const Source* source : sources) {
      const auto runs = std::count_if(tasks_.begin(), tasks_.end(),
                                      [&](const Task& t) { return t.source == source; });
      for (const std::size_t i : everything_) {
        if (tasks_[i].source == source)
          weights[i] = 1.0 / static_cast<double>(static_cast<std::size_t>(runs) * sources.size());
      }
    }
    return weights;
  }

  void look(const Places& places, Vector& e) const {
    const auto results = predict_some(tasks_, places, options_.threads);
    for (std::size_t i = 0; i < places.size(); ++i) e[places[i]] = log_error(results[i]);
  }

  std::vector<Vector> derivatives(const Vector& x, const Vector& e) {
    for (std::size_t k = 0; k < size(); ++k) set(k, x[k]);
    std::vector<Vector> columns(size(), Vector(e.size()));
    for (std::size_t k = 0; k < size(); ++k) {
      const double to = x[k] + kDifference <= 1 ? x[k] + kDifference : x[k] - kDifference;
      const Vector moved = errors_with(x, e, k, to);
      for (std::size_t i = 0; i < e.size(); ++i) columns[k][i] = (moved[i] - e[i]) / (to - x[k]);
    }
    return columns;
  }

  std::vector<Task> tasks_;
  std::vector<const FittedConstant*> constants_;
  FitOptions options_;
  Places everything_;
  std::vector<Places> touched_;
  LeastSquares squares_;
};

Vector compass(Problem& p, Vector x, StepSizes steps) {
  std::vector<Coordinate> box;
  for (const double share : x) box.push_back({share, 0, 1});
  Vector e = p.errors(x), trial;
  std::size_t moved = 0;
  double tried = 0;
  Objective objective;
  objective.value = p.squares().value(x, e);
  objective.with = [&](std::size_t place, double to) {
    moved = place;
    tried = to;
    Vector there = x;
    there[moved] = to;
    trial = p.errors_with(x, e, moved, to);
    return p.squares().value(there, trial);
  };
  objective.accept = [&] {
    x[moved] = tried;
    p.set(moved, tried);
    e = trial;
  };
  minimise(box, objective, steps);
  return x;
}

}  // namespace

double log_error(const std::variant<Prediction, Skipped>& result) {
  const Prediction* p = std::get_if<Prediction>(&result);
  // A layout that is legal for one value of a constant is legal for all.
  PLAN_CHECK(p != nullptr);
  return std::log(p->cost.step_time.si() / p->run->step_time->si());
}

std::vector<const Source*> sources_of(const std::vector<Task>& tasks) {
  std::vector<const Source*> sources;
  for (const Task& task : tasks) {
    if (std::find(sources.begin(), sources.end(), task.source) == sources.end())
      sources.push_back(task.source);
  }
  return sources;
}

Refit fit_constants(std::vector<Task> tasks, std::vector<const FittedConstant*> constants,
                    const std::map<std::string, double>& start, std::optional<StepSizes> steps,
                    const FitOptions& options) {
  Problem problem(std::move(tasks), std::move(constants), options);
  Vector x = problem.squares().anchor;
  for (std::size_t k = 0; k < problem.size(); ++k) {
    const auto given = start.find(problem.constant(k).name);
    if (given != start.end() && problem.is_told(k)) x[k] = problem.share(k, given->second);
  }
  if (problem.has_runs()) {
    if (steps) x = compass(problem, std::move(x), *steps);
    x = levenberg_marquardt(problem.squares(), std::move(x));
  }
  Refit refit;
  refit.loss = problem.squares().value(x, problem.errors(x));
  for (std::size_t k = 0; k < problem.size(); ++k) {
    const FittedConstant& constant = problem.constant(k);
    refit.values[constant.name] = problem.is_told(k) ? problem.value(k, x[k]) : constant.uninformed;
    if (!problem.is_told(k)) refit.undetermined.push_back(constant.name);
  }
  for (std::size_t k = 0; k < problem.size(); ++k) {
    const FittedConstant& c = problem.constant(k);
    for (std::size_t other = 0; other < problem.size(); ++other) {
      if (problem.is_told(k) || !problem.is_told(other) || problem.constant(other).name != c.like)
        continue;
      refit.values[c.name] = std::clamp(refit.values[c.like], c.low, c.high);
    }
  }
  return refit;
}

}  // namespace meshplan::accuracy
