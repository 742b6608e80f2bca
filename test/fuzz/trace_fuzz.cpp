// Any text as a trace, which is then compared with a plan.
#include <cmath>

#include "compare/kineto.hpp"
#include "compare/losses.hpp"
#include "cost/step.hpp"
#include "fuzz/fuzz.hpp"
#include "io/load.hpp"

namespace meshplan::fuzz {
namespace {

struct Job {
  ModelSpec model;
  ClusterSpec cluster;
  PlanCost plan;
};

const Job& job() {
  static const Job known = [] {
    const DataFolders data = DataFolders::standard();
    Job j{*load_model("llama-2-7b", data), with_gpus(*load_cluster("dgx-h100", data), 8), {}};
    Strategy s;
    s.tp = 2, s.pp = 2, s.dp = 2;
    s.global_batch = 8, s.seq_len = 2048;
    j.plan = cost_of(j.model, j.cluster, complete(s, j.model, j.cluster));
    return j;
  }();
  return known;
}

}  // namespace
}  // namespace meshplan::fuzz

MESHPLAN_FUZZ_TARGET(trace) {
  using namespace meshplan;
  const auto traces = read_chrome_trace(ByteStream::of(fuzz::as_text(data, size)), "rank0.json");
  fuzz::require_value_or_errors(traces);
  if (!traces.ok()) return 0;
  fuzz::require(!traces->empty());
  const fuzz::Job& j = fuzz::job();
  const TraceComparison t = compared_traces(*traces, j.model, j.cluster, j.plan);
  for (const DeviceMeasure& d : t.devices) {
    fuzz::require(d.steps > 0 && std::isfinite(d.step.si()) && d.step.si() >= 0);
    fuzz::require(d.computing.si() >= 0 && d.waiting.si() >= 0 && d.copying.si() >= 0);
    fuzz::require(std::isfinite(d.computing.si()) && std::isfinite(d.slow_down.si()));
  }
  for (const TimeLoss& loss : losses_of(t, j.model, j.cluster, j.plan)) {
    fuzz::require(!loss.what.empty() && !loss.evidence.empty() && !loss.remedy.empty());
    fuzz::require(std::isfinite(loss.lost.si()) && loss.lost.si() >= 0);
  }
  return 0;
}
