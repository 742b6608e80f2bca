#pragma once
// Logs of nccl-tests: the text that it prints (2.0 and later) and the JSON that -J writes.
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "spec/cluster.hpp"
#include "spec/provenance.hpp"

namespace meshplan {

// One size of one test. `time` is out of place, the mean over ranks as nccl-tests prints it.
struct NcclTestsRow {
  Bytes bytes;  // the size column
  Seconds time;
  std::int64_t wrong = 0;  // elements that the data check found wrong

  bool operator==(const NcclTestsRow&) const = default;
};

// One run of one test program.
struct NcclTestsRun {
  Collective operation = Collective::kAllReduce;
  std::int64_t ranks = 0;  // of one group
  std::int64_t nodes = 1;  // that a group spreads over
  std::string gpu;         // "NVIDIA H100 80GB HBM3"
  std::vector<std::string> hosts;
  std::vector<NcclTestsRow> rows;
  Provenance provenance;

  bool operator==(const NcclTestsRun&) const = default;
};

// What a person states of logs whose lines do not name every rank (a table in a README, the output
// of one task of several): ranks of a group, and the nodes that it spreads over.
struct NcclRanks {
  std::int64_t ranks = 0;  // 0: not stated
  std::int64_t nodes = 1;
};

// All runs of a log, one or several. `operation` names the test where the log does not: versions
// before 2.17 did not print it; the file's name is looked at next ("all_reduce_perf.log"). Fails on
// a text without results, on ranks that neither its lines nor `stated` name or that differ there,
// on rows that cannot be read, on groups of unequal shape, and on tests whose operation is not a
// collective of the cost model (gather, scatter, reduce, hypercube).
[[nodiscard]] Result<std::vector<NcclTestsRun>> parse_nccl_tests(
    std::string_view text, const std::string& file, std::optional<Collective> operation = {},
    NcclRanks stated = {});

// "all_reduce_perf", "./build/alltoall_perf", "all_reduce" -> the operation.
[[nodiscard]] std::optional<Collective> nccl_tests_operation(std::string_view name);

}  // namespace meshplan
