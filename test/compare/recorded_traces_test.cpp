// Traces that PyTorch's profiler recorded on one H200 with a fault planted in each
// (scripts/gpu_traces.py), cut to their last step and the end of the one before: the verdict names
// what was planted first.
#include <algorithm>
#include <string>
#include <string_view>

#include "compare/kineto.hpp"
#include "compare/losses.hpp"
#include "compare/trace_comparison.hpp"
#include "cost/step.hpp"
#include "io/load.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

struct Recorded {
  TraceComparison comparison;
  std::vector<TimeLoss> losses;
};

Recorded recorded(const std::string& planted, const std::string& batch = "seq_len=2048") {
  const std::string folder = std::string(MESHPLAN_SOURCE_DIR) + "/test/compare/traces/";
  const DataFolders data = DataFolders::standard();
  const Result<ModelSpec> model = load_model(folder + "model.json", data);
  if (!model) FAIL(to_text(model.errors()));
  ClusterSpec cluster = with_gpus(*load_cluster("hgx-h200", data), 1);
  cluster.device = *load_device("h200-sxm-141gb-measured", data);
  Strategy defaults;
  defaults.dp = 1;
  const Result<Strategy> s = load_strategy(
      "framework=fsdp,zero=0,precision=bf16,master_weights=false,grad_dtype=bf16,"
      "kernels.attention=flash2,"
      "optimizer_dtype=bf16,kernels.fused_norm=true,micro_batch=4,global_batch=4," +
          batch,
      defaults);
  if (!s) FAIL(to_text(s.errors()));
  const PlanCost plan = cost_of(*model, cluster, complete(*s, *model, cluster));
  const std::string name = folder + planted + ".json.gz";
  Result<ByteStream> bytes = ByteStream::open(name);
  if (!bytes) FAIL(to_text(bytes.errors()));
  Result<std::vector<DeviceTrace>> traces = read_chrome_trace(std::move(bytes).value(), name);
  if (!traces) FAIL(to_text(traces.errors()));
  Recorded r{compared_traces(*traces, *model, cluster, plan), {}};
  r.losses = losses_of(r.comparison, *model, cluster, plan);
  return r;
}

TEST_CASE("recorded traces: what was planted is named first") {
  struct Row {
    const char* planted;
    LossKind kind;
  };
  const Row row = GENERATE(
      Row{"unfused-attention", LossKind::kUnfusedAttention},
      Row{"unfused-norm", LossKind::kUnfusedNorm},
      Row{"unfused-optimizer", LossKind::kUnfusedOptimizer},
      Row{"unfused-elementwise", LossKind::kUnfusedElementwise},
      Row{"recomputation", LossKind::kRecomputation},
      Row{"small-microbatch", LossKind::kSmallMicrobatch},
      Row{"fp32-product", LossKind::kPrecision}, Row{"slow-product", LossKind::kProduct},
      Row{"starved-host", LossKind::kHostBound}, Row{"data-loading", LossKind::kDataLoading},
      Row{"allocations", LossKind::kAllocations}, Row{"copies", LossKind::kCopies});
  INFO(row.planted);
  const Recorded r = recorded(row.planted);
  REQUIRE_FALSE(r.losses.empty());
  CHECK(name_of(r.losses.front().kind) == name_of(row.kind));
}

TEST_CASE("recorded traces: where nothing was planted little is lost") {
  const Recorded r = recorded("nothing");
  REQUIRE(r.comparison.devices.size() == 1);
  // One step, though the device still ran the one before when the host marked it.
  CHECK(r.comparison.devices.front().steps == 1);
  CHECK(r.comparison.devices.front().of(OpClass::kProduct).count == Approx(87));
  CHECK(r.comparison.step.si() == Approx(0.0993).epsilon(0.01));
  Seconds lost;
  for (const TimeLoss& loss : r.losses) lost += loss.lost;
  CHECK(lost < r.comparison.step * 0.08);
}

TEST_CASE("recorded traces: a layer's passes take what the estimate's layer takes") {
  const Recorded r = recorded("nothing");
  REQUIRE(r.comparison.passes.size() == 2);
  for (const ComparedPasses& p : r.comparison.passes) {
    CAPTURE(p.measured.median.si(), p.predicted.si());
    CHECK(p.measured.count >= 3);
    CHECK(p.measured.median.si() == Approx(p.predicted.si()).epsilon(0.2));
    CHECK(p.measured.elapsed >= p.measured.median);
  }
  // Another microbatch size has other passes, and recomputation a longer backward pass.
  const Recorded again = recorded("recomputation");
  REQUIRE(again.comparison.passes.size() == 2);
  CHECK(again.comparison.passes[1].measured.median > r.comparison.passes[1].measured.median * 1.2);
}

TEST_CASE("recorded traces: that another batch ran is said") {
  const auto says = [](const Recorded& r) {
    return std::any_of(r.comparison.notes.begin(), r.comparison.notes.end(),
                       [](const std::string& note) { return note.find("no product of") == 0; });
  };
  CHECK(says(recorded("nothing", "seq_len=1536")));
  CHECK_FALSE(says(recorded("nothing")));
  CHECK(says(recorded("small-microbatch")));
}

}  // namespace
}  // namespace meshplan
