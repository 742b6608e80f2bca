#pragma once
// Errors of sources left out -> what ships about the errors of the next plan
// (cost/measured_errors.hpp), and how well that holds.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "censored.hpp"
#include "cost/measured_errors.hpp"
#include "predict.hpp"

namespace meshplan::accuracy {

// Sources are numbered in the order of their first run. Ratios are ln(measured / predicted).
struct TimeResidual {
  std::size_t source = 0;
  Regime regime = Regime::kSteady;
  std::string device;
  std::string framework;  // "megatron", or an old release of it: "megatron v2.6"
  std::int64_t gpus = 0;
  double log_ratio = 0;
};

struct MemoryResidual {
  std::size_t source = 0;
  bool whole_device = false;  // as nvidia-smi counts; else the allocator
  Censored log_ratio;         // known exactly where memory is published
};

// Two runs of one sweep: the same model, sequence length, batch, GPUs, precision, system and
// framework, whose layouts the source states in full.
struct OrderedPair {
  std::size_t source = 0;
  double log_ratio = 0;  // of the predicted times, slower over faster: not negative
  double differing = 0;  // share of the step
  bool agrees = false;   // the run predicted faster was faster
};

struct Residuals {
  std::vector<std::string> sources;
  std::vector<TimeResidual> time;
  std::vector<MemoryResidual> memory;
  std::vector<OrderedPair> pairs;
};

// Of scored runs. The regime of a run is that of its prediction with the constants that ship:
// whether launches bound it must not depend on constants that do not know its launches. A sweep's
// pairs are thinned evenly, to a few thousand per source. Where a source also publishes runs that
// ran out of memory (`shipped` has them), these say that their error is above what was left, and
// runs without published memory that it is not: memory of the runs that ran alone would be that of
// the lucky ones.
[[nodiscard]] Residuals residuals_of(const std::vector<Prediction>& held_out,
                                     const std::vector<Prediction>& shipped);

// Step times of runs that chose no constant, as they are predicted by those that ship.
void add_unfitted(Residuals& residuals, const std::vector<Prediction>& unfitted);

// Runs that ran and runs that did not for want of memory, of the sources that publish both (by
// title: they are in different files), each with its source's place in `sources`.
[[nodiscard]] std::vector<std::pair<const Prediction*, std::size_t>> with_both_outcomes(
    const std::vector<Prediction>& predictions, const std::vector<std::string>& sources);

// Smallest value that holds the share `p` of the weight at or below it; a little below counts, so
// that sums of thirds reach one. Not empty.
[[nodiscard]] double weighted_quantile(std::vector<std::pair<double, double>> value_and_weight,
                                       double p);

[[nodiscard]] ErrorBand band_for(const TimeResidual& r, const MeasuredErrors& errors);

// The table from these residuals, `without` one source.
[[nodiscard]] MeasuredErrors measured_errors(const Residuals& residuals,
                                             std::optional<std::size_t> without = {});

// How many runs of a source lie inside the intervals that the other sources' errors make.
struct Coverage {
  std::string source;
  std::int64_t runs = 0;
  double inside = 0;        // share
  double median_width = 0;  // (high - low) / predicted
};
[[nodiscard]] std::vector<Coverage> coverage_of(const Residuals& residuals);

// Of predictions that said `low` to `high`: how many there are and how many came true.
struct Reliability {
  double low = 0, high = 0;
  std::int64_t count = 0;
  double said = 0;  // mean probability
  double came = 0;  // share
};

// Of the order of two plans, each source's pairs by the other sources' errors; a source counts as
// one, so `said` and `came` are means over sources.
[[nodiscard]] std::vector<Reliability> order_reliability(const Residuals& residuals);

// Of running out of memory, over runs that ran and runs that did not for that reason, of the
// sources that publish both; each source's by the other sources' errors.
[[nodiscard]] std::vector<Reliability> memory_reliability(
    const std::vector<Prediction>& predictions, const Residuals& residuals);

// lib/cost/measured_errors_table.cpp.
[[nodiscard]] std::string table_text(const MeasuredErrors& errors);

}  // namespace meshplan::accuracy
