#pragma once
// What tests of spaces ask and count.
#include <cstdint>
#include <map>
#include <string>

#include "frameworks/preset.hpp"
#include "search/cases.hpp"
#include "space/space.hpp"
#include "spec/axes.hpp"

namespace meshplan::search_test {

inline SearchRequest request_for(std::int64_t global_batch) {
  SearchRequest r;
  r.base = framework_preset(Framework::kMegatron);
  r.base.global_batch = global_batch;
  r.base.seq_len = 2048;
  return r;
}

inline std::int64_t sum_of(const std::map<std::string, std::int64_t>& counts) {
  std::int64_t sum = 0;
  for (const auto& [reason, n] : counts) sum += n;
  return sum;
}

// Splits and shardings of a mesh that may be combined.
inline std::size_t num_placed(const SearchSpace& space, const Mesh& mesh, const ModelSpec& m) {
  Strategy s;
  s.tp = mesh.tp, s.pp = mesh.pp, s.cp = mesh.cp, s.dp = mesh.dp;
  std::size_t n = 0;
  for (const Split& split : space.splits(mesh)) {
    for (const Sharding& sharding : space.shardings(mesh)) {
      s.ep = split.ep, s.etp = split.etp, s.order = sharding.order;
      n += keeps_pipeline_ranks(s, m) ? 1 : 0;
    }
  }
  return n;
}

// Legal strategies, partitions not counted.
inline std::int64_t num_legal(const SearchSpace& space, const ModelSpec& m = {}) {
  std::int64_t n = 0;
  for (const Mesh& mesh : space.meshes()) {
    const std::size_t placed = num_placed(space, mesh, m);
    for (const std::int64_t b : space.micro_batches(mesh)) {
      n += static_cast<std::int64_t>(space.cp_kinds(mesh).size() * placed *
                                     space.options(mesh).size() * space.schedules(mesh, b).size());
    }
  }
  return n;
}

}  // namespace meshplan::search_test
