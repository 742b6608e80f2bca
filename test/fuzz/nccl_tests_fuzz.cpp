// Any text as a log of nccl-tests, of either form.
#include <cmath>

#include "fuzz/fuzz.hpp"
#include "io/nccl_tests.hpp"

MESHPLAN_FUZZ_TARGET(nccl_tests) {
  using namespace meshplan;
  const std::string_view text = fuzz::as_text(data, size);
  for (const char* file : {"log.txt", "all_reduce_perf.log"}) {
    const Result<std::vector<NcclTestsRun>> runs = parse_nccl_tests(text, file);
    fuzz::require_value_or_errors(runs);
    if (!runs.ok()) continue;
    fuzz::require(!runs->empty());
    for (const NcclTestsRun& run : *runs) {
      fuzz::require(run.ranks >= 1 && run.nodes >= 1 && run.nodes <= run.ranks);
      for (const NcclTestsRow& row : run.rows) {
        fuzz::require(row.bytes.count() >= 0 && std::isfinite(row.time.si()) && row.time.si() >= 0);
      }
    }
  }
  return 0;
}
