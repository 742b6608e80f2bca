#include "io/nccl_tests.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "base/text.hpp"
#include "io/nccl_tests_parts.hpp"

namespace meshplan {
namespace {

struct TestName {
  std::string_view name;
  Collective operation;
};
constexpr auto kTests = std::to_array<TestName>({{"all_reduce", Collective::kAllReduce},
                                                 {"all_gather", Collective::kAllGather},
                                                 {"reduce_scatter", Collective::kReduceScatter},
                                                 {"alltoall", Collective::kAllToAll},
                                                 {"broadcast", Collective::kBroadcast},
                                                 {"sendrecv", Collective::kSendRecv}});

std::string_view file_name(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}

}  // namespace

std::optional<Collective> nccl_tests_operation(std::string_view name) {
  const std::string_view last = file_name(name);
  for (const TestName& test : kTests) {
    if (!last.starts_with(test.name)) continue;
    // "all_reduce_perf", not a longer word.
    const std::string_view rest = last.substr(test.name.size());
    if (rest.empty() || rest.front() == '_' || rest.front() == '.' || rest.front() == '-') {
      return test.operation;
    }
  }
  return std::nullopt;
}

Result<std::vector<NcclTestsRun>> parse_nccl_tests(std::string_view text, const std::string& file,
                                                   std::optional<Collective> operation,
                                                   NcclRanks stated) {
  if (!operation) operation = nccl_tests_operation(file);
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  const bool json = start != std::string_view::npos && text[start] == '{';
  return json ? nccl_tests::parse_json(text, file, operation)
              : nccl_tests::parse_text(text, file, operation, stated);
}

namespace nccl_tests {

std::string version_text(std::int64_t code) {
  if (code <= 0) return {};
  const std::int64_t major = code >= 10000 ? code / 10000 : code / 1000;
  const std::int64_t minor = code >= 10000 ? code % 10000 / 100 : code % 1000 / 100;
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(code % 100);
}

std::string describe_ranks(const std::vector<RankLine>& ranks, NcclTestsRun& run) {
  struct Group {
    std::map<std::string, std::int64_t> on_host;
    std::int64_t ranks = 0;
  };
  std::map<std::int64_t, Group> groups;
  for (const RankLine& rank : ranks) {
    Group& group = groups[rank.group];
    ++group.ranks;
    ++group.on_host[rank.host];
    if (std::find(run.hosts.begin(), run.hosts.end(), rank.host) == run.hosts.end()) {
      run.hosts.push_back(rank.host);
    }
  }
  if (groups.empty()) return "no line names the ranks";
  const Group& first = groups.begin()->second;
  for (const auto& [id, group] : groups) {
    if (group.ranks != first.ranks || group.on_host.size() != first.on_host.size()) {
      return "its groups have different shapes";
    }
  }
  for (const auto& [id, group] : groups) {
    for (const auto& [host, count] : group.on_host) {
      if (count * static_cast<std::int64_t>(group.on_host.size()) != group.ranks) {
        return "its nodes hold different numbers of ranks";
      }
    }
  }
  if (first.ranks < 2) return "it ran on one rank";
  run.ranks = first.ranks;
  run.nodes = static_cast<std::int64_t>(first.on_host.size());
  run.gpu = ranks.front().gpu;
  run.provenance.gpu = run.gpu;
  run.provenance.host = run.hosts.front();
  if (run.hosts.size() > 1) {
    run.provenance.host += " and " + std::to_string(run.hosts.size() - 1) + " more";
  }
  return {};
}

std::string no_measurement(std::int64_t bytes, double microseconds) {
  constexpr std::int64_t kMostBytes = 9'000'000'000'000'000;
  constexpr double kLeast = 1e-3, kMost = 3600e6;
  if (bytes > kMostBytes) return "a size is more than 9 PB";
  if (microseconds >= kLeast && microseconds <= kMost) return {};
  return "a time is not from a nanosecond to an hour";
}

Diagnostic unknown_operation(SourcePosition where, std::string_view name) {
  std::vector<std::string> names;
  for (const TestName& test : kTests) names.emplace_back(test.name);
  if (name.empty()) {
    return error_at(std::move(where), "which operation was tested is not in the log",
                    "give --operation, or name the file after it: all_reduce_perf.log");
  }
  return error_at(
      std::move(where),
      "the test '" + std::string(file_name(name)) + "' is of no operation that plans use",
      "one of " + join_words(names, " or "));
}

}  // namespace nccl_tests
}  // namespace meshplan
