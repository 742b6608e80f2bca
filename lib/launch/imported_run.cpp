#include "launch/imported_run.hpp"

#include <algorithm>
#include <limits>

#include "base/text.hpp"
#include "model/rules.hpp"

namespace meshplan {

std::optional<std::string> out_of_range(const std::string& name, std::int64_t value,
                                        IntegerRange range) {
  if (value >= range.lowest && value <= range.highest) return std::nullopt;
  return name + " must be " +
         (value < range.lowest ? std::to_string(range.lowest) + " or more"
                               : "at most " + with_thousands(range.highest)) +
         ", got " + std::to_string(value);
}

std::int64_t bounded_product(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) {
      return std::numeric_limits<std::int64_t>::max();
    }
  }
  return product;
}

bool grows_segments(const std::map<std::string, ShellWord>& environment) {
  bool grows = false;
  for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    const auto set = environment.find(name);
    if (set == environment.end()) continue;
    grows = set->second.text.find("expandable_segments:True") != std::string::npos;
  }
  return grows;
}

Strategy with_world(const ImportedRun& run, std::int64_t world_size) {
  Strategy s = run.strategy;
  if (world_size > 0 && !run.states_dp) {
    s.dp = world_size / std::max<std::int64_t>(bounded_product({s.tp, s.pp, s.cp}), 1);
  }
  if (run.accumulation > 0) {
    s.global_batch =
        bounded_product({s.micro_batch, run.accumulation, std::max<std::int64_t>(s.dp, 1)});
  }
  s.runtime.expandable_segments |= run.grows_segments;
  if (run.replicas > 1) s.zero_group = bounded_product({s.dp, s.cp}) / run.replicas;
  return s;
}

Diagnostics validate(const ImportedRun& run, const std::string& file) {
  Diagnostics problems;
  if (run.knows_model) problems = validate(run.model);
  Strategy s = run.strategy;
  if (s.dp == 0) s.dp = 1;
  if (s.seq_len == 0) s.seq_len = 1;
  for (const Diagnostic& d : findings(s).diagnostics()) problems.push_back(d);
  for (Diagnostic& d : problems) {
    if (d.where.file.empty()) d.where.file = file;
  }
  return problems;
}

std::vector<std::int64_t> every_nth(const std::vector<std::int64_t>& layers, std::int64_t each) {
  std::vector<std::int64_t> counts;
  for (const std::int64_t count : layers) counts.push_back(count / std::max<std::int64_t>(each, 1));
  return counts;
}

}  // namespace meshplan
