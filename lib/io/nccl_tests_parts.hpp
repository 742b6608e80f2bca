#pragma once
// What the two formats of nccl-tests share; private to this library.
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/nccl_tests.hpp"

namespace meshplan::nccl_tests {

// "nccl-library=22809" or nccl_version 22809 -> "2.28.9"; versions before 2.9 count in hundreds.
[[nodiscard]] std::string version_text(std::int64_t code);

// Ranks as their lines name them: group, host and device name.
struct RankLine {
  std::int64_t group = 0;
  std::string host, gpu;
};

// Fills ranks, nodes, hosts and gpu; says what is wrong with the groups, else nothing.
[[nodiscard]] std::string describe_ranks(const std::vector<RankLine>& ranks, NcclTestsRun& run);

[[nodiscard]] Result<std::vector<NcclTestsRun>> parse_json(std::string_view text,
                                                           const std::string& file,
                                                           std::optional<Collective> operation);
[[nodiscard]] Result<std::vector<NcclTestsRun>> parse_text(std::string_view text,
                                                           const std::string& file,
                                                           std::optional<Collective> operation,
                                                           NcclRanks stated);

// Why a size and a time over zero are no measurement, by what a cluster file may hold
// (spec/cluster.cpp, base/quantity.cpp); empty if they are one.
[[nodiscard]] std::string no_measurement(std::int64_t bytes, double microseconds);

[[nodiscard]] Diagnostic unknown_operation(SourcePosition where, std::string_view name);

}  // namespace meshplan::nccl_tests
