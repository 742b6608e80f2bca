#pragma once
// A small search of a framework with some of its keys fixed.
#include <string_view>

#include "io/limits.hpp"
#include "search/cases.hpp"
#include "support/catch.hpp"
#include "support/presets.hpp"

namespace meshplan::search_test {

inline Case fixed_case(std::int64_t layers, std::string_view framework, const char* fixed) {
  Case c;
  c.model = small_model(layers, 2048);
  c.cluster = small_cluster(2, 4, Bytes{16 * kGiB});
  c.request.base = shipped_strategy(framework);
  c.request.base.global_batch = 16, c.request.base.seq_len = 4096;
  Result<std::vector<Limit>> limits = parse_limits(fixed, "--fix");
  REQUIRE(limits.ok());
  c.request.limits = std::move(limits).value();
  return c;
}

}  // namespace meshplan::search_test
