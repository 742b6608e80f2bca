// Devices and clusters: derived numbers and rules.
#include "spec/cluster.hpp"

#include "support/catch.hpp"

namespace meshplan {
namespace {

void set(PerPrecision<FlopsPerSecond>& rates, Precision p, double si) {
  rates[static_cast<std::size_t>(p)] = FlopsPerSecond{si};
}

DeviceSpec device() {
  DeviceSpec d;
  d.name = "a100";
  d.architecture = Architecture::kAmpere;
  d.memory = Bytes{80 * kGiB};
  d.context = Bytes{kGiB};
  d.memory_bandwidth = BytesPerSecond{2e12};
  d.l2_cache = Bytes{40 * kMiB};
  d.multiprocessors = 108;
  set(d.peak, Precision::kBf16, 312e12);
  d.gemm.sustained[static_cast<std::size_t>(Precision::kBf16)] = 0.8;
  d.gemm.k_half = 64;
  d.attention = {0.7, 0.6, 256};
  d.memory_efficiency = 0.85;
  d.kernel_overhead = Seconds{3e-6};
  d.launch_gap = Seconds{5e-6};
  d.host_link = BytesPerSecond{25e9};
  return d;
}

ClusterSpec cluster() {
  ClusterSpec c;
  c.name = "dgx";
  c.device = device();
  c.nodes = 4;
  c.gpus_per_node = 8;
  c.levels = {{"nvlink", 8, BytesPerSecond{300e9}, Seconds{3e-6}, LinkKind::kNvswitch, 1},
              {"rail", 0, BytesPerSecond{25e9}, Seconds{6e-6}, LinkKind::kInfiniband, 1}};
  return c;
}

}  // namespace

TEST_CASE("A sound device and cluster break no rule") {
  CHECK(to_text(validate(device())).empty());
  CHECK(to_text(validate(cluster())).empty());
  CHECK(num_gpus(cluster()) == 32);
}

TEST_CASE("Runs that numbers were learnt from are such as a fit writes") {
  ClusterSpec c = cluster();
  c.seen_runs = {{"a.log", {{"memory_efficiency", -0.2}}, -0.1, 0.01}};
  CHECK(validate(c).empty());
  const auto refused = [&](const SeenRun& run) {
    ClusterSpec other = c;
    other.seen_runs.push_back(run);
    return has_errors(validate(other));
  };
  CHECK(refused({"b", {}, 1e200, 0.01}));
  CHECK(refused({"b", {}, 0, -1}));
  CHECK(refused({"b", {{"launch_gap", 1e9}}, 0, 0.01}));
  CHECK_FALSE(refused({"b", {{"launch_gap", 1}}, 0, 0.01}));
  c.seen_runs.resize(kMostSeenRuns + 1, c.seen_runs[0]);
  CHECK(has_errors(validate(c)));
}

TEST_CASE("Another number of devices is whole nodes or part of one") {
  CHECK(num_gpus(with_gpus(cluster(), 64)) == 64);
  CHECK(with_gpus(cluster(), 64).nodes == 8);
  const ClusterSpec part = with_gpus(cluster(), 2);
  CHECK(part.nodes == 1);
  CHECK(part.gpus_per_node == 2);
  CHECK(num_gpus(with_gpus(cluster(), 12)) == 16);  // neither: the caller can tell
}

TEST_CASE("[F-LAY-6] a job larger than an NVLink domain takes an equal part of each") {
  ClusterSpec c = cluster();
  c.nodes = 144;
  c.gpus_per_node = 4;
  c.levels.front().span = 72;
  const auto part = [](const ClusterSpec& x) { return x.levels.front().span; };
  CHECK(part(with_gpus(c, 256)) == 64);
  CHECK(with_gpus(c, 256).levels.front().domain == 72);
  CHECK(part(with_gpus(c, 80)) == 40);
  CHECK(part(with_gpus(c, 144)) == 72);  // whole domains
  CHECK(part(with_gpus(c, 64)) == 72);   // in one of them
  CHECK(part(with_gpus(c, 76)) == 72);   // nothing divides it
  CHECK(part(with_gpus(c, 148)) == 72);  // only small parts would
  for (const std::int64_t gpus : {64, 144, 148}) {
    CHECK(with_gpus(with_gpus(c, 256), gpus) == with_gpus(c, gpus));
  }
  CHECK(with_gpus(with_gpus(c, 256), 256) == with_gpus(c, 256));
  CHECK(to_text(validate(with_gpus(c, 256))).empty());
  c.levels.insert(c.levels.begin() + 1, c.levels.back());
  c.levels[1].span = 288;  // what it lies in would be cut as well
  CHECK(part(with_gpus(c, 256)) == 72);
}

TEST_CASE("Rates fall back the way the hardware does") {
  DeviceSpec d = device();
  set(d.peak, Precision::kFp32, 19.5e12);
  CHECK(peak_rate(d, Precision::kTf32).si() == 19.5e12);
  CHECK(peak_rate(d, Precision::kFp8).si() == 312e12);
  CHECK(peak_rate(d, Precision::kFp16).si() == 0);
  set(d.peak, Precision::kFp16, 125e12);
  set(d.peak, Precision::kBf16, 0);
  CHECK(peak_rate(d, Precision::kBf16).si() == 0);
  d.architecture = Architecture::kVolta;
  CHECK(peak_rate(d, Precision::kBf16).si() == 125e12);
}

TEST_CASE("Rules of a device") {
  struct Row {
    const char* why;
    void (*spoil)(DeviceSpec&);
    const char* message;
  };
  const auto row = GENERATE(values<Row>({
      {"memory", [](DeviceSpec& d) { d.memory = Bytes{0}; },
       "error: 'memory' must be from 1 to 1,125,899,906,842,624, got 0\n"},
      {"context", [](DeviceSpec& d) { d.context = d.memory; },
       "error: 'context' leaves nothing of 'memory' for tensors\n"},
      {"no share for a rate", [](DeviceSpec& d) { set(d.peak, Precision::kFp16, 1e12); },
       "error: 'gemm.sustained.fp16' is missing: the device has a peak rate for fp16\n"},
      {"more than the peak", [](DeviceSpec& d) { d.memory_efficiency = 1.5; },
       "error: 'memory_efficiency' must be from 1e-12 to 1, got 1.5\n"},
      {"faster with company", [](DeviceSpec& d) { d.overlap_slowdown = 0.9; },
       "error: 'overlap_slowdown' must be from 1 to 10, got 0.9\n"},
      {"no precision", [](DeviceSpec& d) { set(d.peak, Precision::kBf16, 0); },
       "error: 'peak' states no precision\n"},
  }));
  INFO(row.why);
  DeviceSpec d = device();
  row.spoil(d);
  CHECK(to_text(validate(d)) == row.message);
}

TEST_CASE("Rules of a cluster") {
  struct Row {
    const char* why;
    void (*spoil)(ClusterSpec&);
    const char* message;
  };
  const auto row = GENERATE(values<Row>({
      {"nodes", [](ClusterSpec& c) { c.nodes = 0; },
       "error: 'nodes' must be from 1 to 16,777,216, got 0\n"},
      {"devices", [](ClusterSpec& c) { c.nodes = 1 << 24; },
       "error: 'nodes' times 'gpus_per_node' is 134,217,728 devices, more than 16,777,216\n"},
      {"levels", [](ClusterSpec& c) { c.levels.clear(); },
       "error: 'levels' must list 1 to 6 levels, got 0\n"},
      {"not nested",
       [](ClusterSpec& c) {
         c.levels.insert(c.levels.begin() + 1, c.levels[0]), c.levels[1].name = "x",
                                                             c.levels[1].span = 12;
       },
       "error: 'levels[1].span' must be a multiple of the span below it, 8, got 12\n"},
      {"too short", [](ClusterSpec& c) { c.levels[1].span = 16; },
       "error: the outermost level connects 16 of the 32 devices\n  hint: write span: all\n"},
      {"all too early", [](ClusterSpec& c) { c.levels[0].span = 0; },
       "error: 'levels[0].span' is all, but a level follows it\n"
       "  hint: only the outermost level spans all\n"},
      {"same name", [](ClusterSpec& c) { c.levels[1].name = "nvlink"; },
       "error: level name 'nvlink' appears twice\n"},
      {"bandwidth", [](ClusterSpec& c) { c.levels[1].bandwidth = BytesPerSecond{0}; },
       "error: 'levels[1].bandwidth' must be from 1 to 1e+18, got 0\n"},
      {"oversubscription", [](ClusterSpec& c) { c.levels[1].oversubscription = 0.5; },
       "error: 'levels[1].oversubscription' must be from 1 to 1000, got 0.5\n"},
      {"fit of no level",
       [](ClusterSpec& c) {
         c.collectives = {{Collective::kAllReduce, "nvlnk", 8, 1, {{Bytes{1}, Seconds{1e-6}}}}};
       },
       "error: 'collectives[0].level' names no level: 'nvlnk'\n"},
      {"sizes that do not grow",
       [](ClusterSpec& c) {
         c.collectives = {{Collective::kAllReduce,
                           "nvlink",
                           8,
                           1,
                           {{Bytes{2}, Seconds{1e-6}}, {Bytes{2}, Seconds{2e-6}}}}};
       },
       "error: 'collectives[0].points' must have increasing sizes and times over zero\n"},
      {"device", [](ClusterSpec& c) { c.device.multiprocessors = 0; },
       "error: device: 'multiprocessors' must be from 1 to 1,048,576, got 0\n"},
  }));
  INFO(row.why);
  ClusterSpec c = cluster();
  row.spoil(c);
  CHECK(to_text(validate(c)) == row.message);
}

}  // namespace meshplan
