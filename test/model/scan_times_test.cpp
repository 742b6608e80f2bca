// Scans of layers with a state against published times of their kernels.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <vector>

#include "cost/support.hpp"
#include "io/load.hpp"
#include "model/kinds.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

struct Shape {
  std::int64_t batch, seq_len, heads, dim;
};

// Milliseconds of the forward pass, and of both; 0: not measured, or of a kernel that spilled.
struct Times {
  double forward, both;
};

// Of flash-linear-attention's benchmarks/ops/registry.py those that keep the device busy: the other
// two are as long as the host's launches.
constexpr std::array<Shape, 4> kShapes{
    {{1, 8192, 96, 128}, {2, 16384, 16, 128}, {4, 4096, 64, 128}, {8, 2048, 32, 256}}};
using Row = std::array<Times, kShapes.size()>;

enum class Kernel { kGatedDelta, kKimiDelta, kSimpleGated };

struct Measured {
  Kernel kernel;
  const char* cluster;
  Row row;
};

// pytorch/helion examples/linear/BENCHMARKS.md, columns "fla": H100 and B200, July 2026.
const std::array<Measured, 6> kMeasured{{
    {Kernel::kGatedDelta,
     "dgx-h100",
     {{{1.623, 6.925}, {1.062, 4.595}, {2.046, 8.925}, {2.441, 13.717}}}},
    {Kernel::kGatedDelta,
     "dgx-b200",
     {{{1.204, 5.388}, {0.925, 4.072}, {1.517, 6.945}, {1.958, 9.168}}}},
    {Kernel::kKimiDelta,
     "dgx-h100",
     {{{3.184, 17.387}, {2.223, 11.719}, {4.072, 22.650}, {4.376, 24.834}}}},
    {Kernel::kKimiDelta,
     "dgx-b200",
     {{{2.241, 11.204}, {1.609, 7.777}, {2.925, 14.615}, {3.771, 19.095}}}},
    {Kernel::kSimpleGated,
     "dgx-h100",
     {{{0.804, 5.698}, {0.546, 3.667}, {1.017, 6.718}, {1.426, 10.514}}}},
    {Kernel::kSimpleGated,
     "dgx-b200",
     {{{0.610, 3.653}, {0.554, 2.877}, {0.736, 4.738}, {1.129, 0}}}},
}};

Mixer mixer_of(Kernel kernel, const Shape& s) {
  if (kernel == Kernel::kSimpleGated) return LightningSpec{s.heads, s.dim};
  const std::int64_t rank = kernel == Kernel::kKimiDelta ? 128 : 0;
  return GatedDeltaNetSpec{s.heads, s.heads, s.dim, s.dim, 4, rank};
}

// Of the scan's kernels alone.
double predicted_ms(const ClusterSpec& c, const Mixer& mixer, const Shape& shape, Pass pass) {
  ModelSpec m = plain_gpt(1, 2048);
  m.layers = {{1, {mixer, NoneSpec{}}}};
  m.max_seq_length = shape.seq_len;
  Strategy s = plain_strategy(1, 1, 1);
  s.precision = Precision::kBf16;
  s.micro_batch = shape.batch;
  s.seq_len = shape.seq_len;
  const BlockContext x{m, c, s, local_shape(m, s)};
  BlockOps ops;
  append_mixer(x, mixer, ops);
  double seconds = 0;
  for (const KernelOp& op : ops.kernels) {
    const bool scan = op.name.starts_with("delta rule") || op.name == "linear attention";
    if (scan && op.pass == pass) seconds += op.time.si();
  }
  return seconds * 1e3;
}

}  // namespace

TEST_CASE("[F-SCAN-1] scans take what flash-linear-attention's kernels were measured to take") {
  const DataFolders data(std::vector<std::filesystem::path>{MESHPLAN_SOURCE_DIR});
  std::vector<double> sizes;
  for (const Measured& measured : kMeasured) {
    const ClusterSpec c = *load_cluster(measured.cluster, data);
    for (std::size_t i = 0; i < kShapes.size(); ++i) {
      CAPTURE(measured.cluster, static_cast<int>(measured.kernel), i);
      const Mixer mixer = mixer_of(measured.kernel, kShapes[i]);
      const auto [forward, both] = measured.row[i];
      const auto judge = [&](Pass pass, double ms) {
        const double ratio = predicted_ms(c, mixer, kShapes[i], pass) / ms;
        CHECK(ratio > 0.7);
        CHECK(ratio < 1.3);
        sizes.push_back(std::abs(ratio - 1));
      };
      judge(Pass::kForward, forward);
      if (both > 0) judge(Pass::kBackwardInput, both - forward);
    }
  }
  REQUIRE(sizes.size() == 47);
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  CHECK(*middle < 0.12);
}
