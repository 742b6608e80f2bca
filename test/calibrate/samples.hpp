#pragma once
// The recorded sample sets of test/calibrate/data, and noise that every machine draws alike.
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "spec/cluster.hpp"

namespace meshplan::calibrate_test {

inline std::string data_file(const std::string& name) {
  return std::string(MESHPLAN_SOURCE_DIR) + "/test/calibrate/data/" + name;
}

inline std::vector<std::string> data_lines(const std::string& name) {
  std::ifstream file(data_file(name));
  PLAN_CHECK(file.good());
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.front() != '#') lines.push_back(line);
  }
  return lines;
}

// operation -> samples, of "operation bytes microseconds" lines.
inline std::map<std::string, std::vector<TimedSize>> recorded(const std::string& name) {
  std::map<std::string, std::vector<TimedSize>> all;
  for (const std::string& line : data_lines(name)) {
    std::istringstream words(line);
    std::string operation;
    std::int64_t bytes = 0;
    double us = 0;
    words >> operation >> bytes >> us;
    PLAN_CHECK(!words.fail());
    all[operation].emplace_back(Bytes{bytes}, Seconds{us * 1e-6});
  }
  return all;
}

// System and operation -> samples from 1 KiB to 1 GiB: the least of latency + bytes / bandwidth
// over the algorithms of a line.
inline std::map<std::string, std::vector<TimedSize>> nccl_model() {
  std::map<std::string, std::vector<TimedSize>> all;
  for (const std::string& line : data_lines("nccl_model.txt")) {
    std::istringstream words(line);
    std::string system, operation;
    words >> system >> operation;
    std::vector<std::pair<double, double>> algorithms;
    for (double us = 0, gb = 0; words >> us >> gb;) algorithms.emplace_back(us * 1e-6, gb * 1e9);
    PLAN_CHECK(!algorithms.empty());
    for (int power = 10; power <= 30; ++power) {
      const Bytes bytes{std::int64_t{1} << power};
      double least = 1e300;
      for (const auto& [latency, rate] : algorithms) {
        least = std::min(least, latency + bytes.si() / rate);
      }
      all[system + " " + operation].emplace_back(bytes, Seconds{least});
    }
  }
  return all;
}

// latency + bytes / bandwidth at powers of two, each time off by a factor drawn from a log-normal
// of the given spread; every `outlier_every`th one (0: none) is `outlier_factor` times as long.
struct Planted {
  double latency_s = 20e-6;
  double bandwidth = 100e9;
  double spread = 0;
  int outlier_every = 0;
  double outlier_factor = 6;
  unsigned seed = 1;
};

inline std::vector<TimedSize> planted(const Planted& p, int from = 3, int to = 30) {
  std::mt19937 engine(p.seed);  // its sequence is fixed by the standard; the distributions' are not
  const auto uniform = [&] { return (static_cast<double>(engine()) + 0.5) / 4294967296.0; };
  std::vector<TimedSize> samples;
  for (int power = from; power <= to; ++power) {
    double sum = 0;  // of twelve uniform numbers: nearly normal, variance 1
    for (int i = 0; i < 12; ++i) sum += uniform();
    const Bytes bytes{std::int64_t{1} << power};
    double time = (p.latency_s + bytes.si() / p.bandwidth) * std::exp(p.spread * (sum - 6));
    if (p.outlier_every > 0 && (power - from) % p.outlier_every == p.outlier_every / 2) {
      time *= p.outlier_factor;
    }
    samples.emplace_back(bytes, Seconds{time});
  }
  return samples;
}

}  // namespace meshplan::calibrate_test
