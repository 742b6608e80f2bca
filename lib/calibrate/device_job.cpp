#include "calibrate/device_job.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "calibrate/curve.hpp"
#include "calibrate/statistics.hpp"

namespace meshplan::device_fit {
namespace {

std::vector<Observation> observed(const std::vector<Sample>& samples) {
  std::vector<Observation> all;
  for (const Sample& s : samples) all.push_back({describe(s.operation), s.median.si(), s.spread});
  return all;
}

Predictor predictor(const std::vector<Sample>& samples, const DeviceSpec& start, const Apply& apply,
                    const Predict& predict) {
  return [&samples, &start, &apply, &predict](std::span<const double> values) {
    const DeviceSpec d = apply(start, values);
    std::vector<double> times;
    for (const Sample& s : samples) times.push_back(predict(d, s).si());
    return times;
  };
}

// Errors of every fifth sample under a fit of the others, for each of the five choices.
std::vector<double> fold_errors(std::span<const Parameter> parameters,
                                const std::vector<Sample>& samples, const DeviceSpec& start,
                                const Apply& apply, const Predict& predict) {
  constexpr std::size_t kFolds = 5;
  std::vector<double> errors;
  if (samples.size() < 2 * kFolds) return errors;
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    std::vector<Sample> kept;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (i % kFolds != fold) kept.push_back(samples[i]);
    }
    const auto fit = fit_parameters(parameters, observed(kept),
                                    predictor(kept, start, apply, predict), LeaveOneOut::kNo);
    if (!fit) continue;
    const DeviceSpec d = apply(start, fit->values);
    for (std::size_t i = fold; i < samples.size(); i += kFolds) {
      errors.push_back(std::abs(predict(d, samples[i]) / samples[i].median - 1));
    }
  }
  return errors;
}

// The samples that ran on until their rate lasted, with that in place of their short times.
std::vector<Sample> steady_of(const std::vector<Sample>& samples) {
  std::vector<Sample> some;
  for (const Sample& s : samples) {
    if (!s.steady || !(s.steady->median.si() > 0)) continue;
    some.push_back(s);
    some.back().median = s.steady->median;
    some.back().spread = s.steady->spread;
  }
  return some;
}

}  // namespace

void fit_job(const Job& job, std::vector<Sample> samples, DeviceFit& result) {
  if (samples.empty()) return;
  const auto total = static_cast<std::int64_t>(samples.size());
  const DeviceSpec start = result.device;
  Result<ParameterFit> fit = error("");
  for (int round = 0; round < 2; ++round) {
    fit = fit_parameters(job.parameters, observed(samples),
                         predictor(samples, start, job.apply, job.predict), LeaveOneOut::kNo);
    if (!fit) break;
    std::vector<double> residuals;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      residuals.push_back(std::log(fit->after[i] / samples[i].median.si()));
    }
    const double limit = std::max(5 * robust_spread(residuals), std::log(1.5));
    std::vector<Sample> kept;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (std::abs(residuals[i]) <= limit) kept.push_back(samples[i]);
    }
    if (kept.size() == samples.size() || kept.size() * 2 < samples.size()) break;
    samples = std::move(kept);
  }
  if (!fit) {
    result.warnings.push_back(job.what + ": " + fit.errors().front().message);
    return;
  }
  result.device = job.apply(start, fit->values);
  std::vector<double> errors;
  for (const Sample& s : samples) {
    errors.push_back(std::abs(job.predict(result.device, s) / s.median - 1));
  }
  const auto kept = static_cast<std::int64_t>(samples.size());
  FitErrors quality{.residual_median = median(errors),
                    .residual_p90 = quantile(errors, 0.9),
                    .samples = total,
                    .outliers = total - kept};
  const auto held_out = fold_errors(job.parameters, samples, start, job.apply, job.predict);
  if (!held_out.empty()) {
    quality.held_out_median = median(held_out);
    quality.held_out_p90 = quantile(held_out, 0.9);
  }
  for (const FittedParameter& p : fit->parameters) {
    if (p.fitted) {
      result.numbers.push_back({p.name, fixed(p.before, 3), fixed(p.after, 3), quality});
    } else {
      result.warnings.push_back(p.name + " is kept: " + p.reason);
    }
  }
}

void settle(const std::string& key, const Apply& apply, const Job& bursts,
            const std::vector<Sample>& samples, DeviceFit& result) {
  const auto at = std::find_if(result.numbers.begin(), result.numbers.end(),
                               [&](const DeviceNumber& n) { return n.key == key; });
  if (at == result.numbers.end()) return;  // kept
  const std::vector<Sample> steady = steady_of(samples);
  if (steady.empty()) {
    result.warnings.push_back(key +
                              " is of short bursts: nothing ran until the power limit showed, so "
                              "that training may be slower");
    at->note = "of short bursts";
    return;
  }
  const auto parameter = std::find_if(bursts.parameters.begin(), bursts.parameters.end(),
                                      [&](const Parameter& p) { return p.name == key; });
  Job job{.parameters = {*parameter}, .apply = apply, .predict = bursts.predict, .what = key};
  const DeviceNumber burst = *at;
  result.numbers.erase(at);
  fit_job(job, steady, result);
  if (result.numbers.empty() || result.numbers.back().key != key) {
    result.numbers.push_back(burst);  // a warning says why the steady times did not do
    return;
  }
  DeviceNumber& lasting = result.numbers.back();
  lasting.before = burst.before;
  lasting.note = "steady runs of a second or more; short bursts reach " + burst.after;
  // How well unseen shapes are predicted is what the many bursts say.
  lasting.errors.held_out_median = burst.errors.held_out_median;
  lasting.errors.held_out_p90 = burst.errors.held_out_p90;
  result.facts[key + " of short bursts"] = burst.after;
}

}  // namespace meshplan::device_fit
