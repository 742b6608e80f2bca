#include "calibrate/device.hpp"

#include <algorithm>
#include <cmath>

#include "calibrate/bench_samples.hpp"
#include "io/load.hpp"
#include "kernels/kernels.hpp"
#include "probe/samples_file.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

const DataFolders kShipped({MESHPLAN_SOURCE_DIR});

DeviceSpec h200() { return load_device("h200-sxm-141gb", kShipped).value(); }

Machine one_gpu() {
  Machine m;
  m.backend = "nccl";
  m.date = "2025-06-01";
  m.ranks = {{.rank = 0,
              .local_rank = 0,
              .node = 0,
              .host = "a",
              .device = "NVIDIA H200",
              .device_id = "x"}};
  return m;
}

// The cost model's own formulas, as the program passes them in.
KernelModel kernel_model() {
  return {.gemm =
              [](const DeviceSpec& d, const GemmOperation& g) {
                return gemm_time(d, g.precision,
                                 {.m = g.m,
                                  .n = g.n,
                                  .k = g.k,
                                  .count = g.count,
                                  .output_bytes = g.accumulate ? 4.0 : 2.0,
                                  .accumulate_bytes = g.accumulate ? 4.0 : 0.0});
              },
          .attention =
              [](const DeviceSpec& d, const AttentionOperation& a) {
                return fused_attention_time(d,
                                            {.batch = a.batch,
                                             .heads = a.heads,
                                             .queries = a.queries,
                                             .keys = a.keys,
                                             .qk_dim = a.qk_dim,
                                             .v_dim = a.v_dim,
                                             .pair_fraction = a.causal ? 0.5 : 1.0},
                                            a.backward);
              }};
}

Sample sample(Operation op, Seconds time) {
  Sample s;
  s.operation = std::move(op);
  s.median = time;
  s.times = {time};
  s.spread = 0.01;
  return s;
}

// Products of transformer layers at several widths and lengths, timed on `truth`, each off by up to
// `noise` in a fixed pattern.
std::vector<Sample> products(const DeviceSpec& truth, double noise) {
  std::vector<Sample> all;
  for (const std::int64_t tokens : {512, 2048, 4096, 8192}) {
    for (const std::int64_t hidden : {2048, 4096, 5120, 8192}) {
      for (const auto& [n, k] : {std::pair{hidden, hidden}, std::pair{hidden / 8, hidden},
                                 std::pair{4 * hidden, hidden}, std::pair{hidden, 4 * hidden}}) {
        const GemmOperation op{.m = tokens, .n = n, .k = k, .precision = Precision::kBf16};
        const GemmOperation gradient{.m = n,
                                     .n = k,
                                     .k = tokens,
                                     .layout = GemmLayout::kWeightGradient,
                                     .precision = Precision::kBf16,
                                     .accumulate = true};
        for (const GemmOperation& g : {op, gradient}) {
          const double off = 1 + noise * std::sin(7.0 * static_cast<double>(all.size()));
          all.push_back(sample(g, kernel_model().gemm(truth, g) * off));
        }
      }
    }
  }
  return all;
}

TEST_CASE("[F-CAL-7] products determine the sustained rate and how much of their output shows") {
  DeviceSpec truth = h200();
  truth.gemm.sustained[static_cast<std::size_t>(Precision::kBf16)] = 0.48;
  truth.gemm.k_half = 32;
  truth.gemm.output_exposed = 0.7;
  std::vector<Sample> samples = products(truth, 0.03);
  samples[11].median *= 5.0;                                         // an interrupted one
  samples.push_back(sample(GemmOperation{64, 64, 64}, Seconds{3}));  // a wrong one
  samples.back().correctness = Correctness::kWrong;
  const DeviceFit fit = fit_device(samples, one_gpu(), h200(), kernel_model());
  CHECK(fit.device.gemm.sustained[static_cast<std::size_t>(Precision::kBf16)] ==
        Approx(0.48).epsilon(0.03));
  CHECK(fit.device.gemm.output_exposed == Approx(0.7).epsilon(0.1));
  REQUIRE(fit.numbers.size() == 3);
  CHECK(fit.numbers[0].key == "gemm.sustained.bf16");
  CHECK(fit.numbers[0].errors.samples == 128);
  CHECK(fit.numbers[0].errors.outliers == 1);
  // Shapes that the fit was kept from are as good as the noise.
  CHECK(fit.numbers[0].errors.held_out_median < 0.05);
  CHECK(fit.numbers[0].errors.held_out_p90 < 0.10);
  CHECK(fit.device.sources.at("gemm.sustained.bf16").find("128 samples") != std::string::npos);
  // Other precisions were not measured.
  CHECK(fit.device.gemm.sustained[static_cast<std::size_t>(Precision::kFp8)] ==
        h200().gemm.sustained[static_cast<std::size_t>(Precision::kFp8)]);
  CHECK(fit.device.sources.count("gemm.output_exposed") == 1);
}

TEST_CASE("[F-CAL-7] the sustained rate is that of steady runs where there are some") {
  const auto bf16 = static_cast<std::size_t>(Precision::kBf16);
  DeviceSpec burst = h200(), lasting = h200();
  burst.gemm.sustained[bf16] = 0.78;
  burst.gemm.k_half = lasting.gemm.k_half = 32;
  burst.gemm.output_exposed = lasting.gemm.output_exposed = 0.5;
  lasting.gemm.sustained[bf16] = 0.66;
  std::vector<Sample> samples = products(burst, 0.01);
  std::size_t steady = 0;
  for (Sample& s : samples) {
    const auto& g = std::get<GemmOperation>(s.operation);
    if (std::min({g.m, g.n, g.k}) < 8192) continue;
    s.steady = SteadyTimes{kernel_model().gemm(lasting, g), 0.004, Seconds{1.2}, true, 0.7};
    ++steady;
  }
  REQUIRE(steady == 6);
  const DeviceFit fit = fit_device(samples, one_gpu(), h200(), kernel_model());
  CHECK(fit.device.gemm.sustained[bf16] == Approx(0.66).epsilon(0.01));
  CHECK(fit.device.gemm.output_exposed == Approx(0.5).epsilon(0.1));
  CHECK(std::stod(fit.facts.at("gemm.sustained.bf16 of short bursts")) ==
        Approx(0.78).epsilon(0.01));
  CHECK(fit.facts.at("clock in steady runs") == "70.0 % of the highest");
  CHECK(fit.warnings.empty());
  const auto number = std::find_if(fit.numbers.begin(), fit.numbers.end(),
                                   [](const auto& n) { return n.key == "gemm.sustained.bf16"; });
  REQUIRE(number != fit.numbers.end());
  CHECK(std::stod(number->before) == Approx(h200().gemm.sustained[bf16]).epsilon(1e-3));
  CHECK(number->errors.samples == 6);
  CHECK(number->errors.held_out_median > 0);  // of the bursts of all shapes
  CHECK(fit.device.sources.at("gemm.sustained.bf16")
            .find("; steady runs of a second or more; "
                  "short bursts reach 0.7") != std::string::npos);
  // Nothing lasted: the rate is of bursts, and that is said.
  for (Sample& s : samples) s.steady.reset();
  const DeviceFit hasty = fit_device(samples, one_gpu(), h200(), kernel_model());
  CHECK(hasty.device.gemm.sustained[bf16] == Approx(0.78).epsilon(0.01));
  REQUIRE(hasty.warnings.size() == 1);
  CHECK(hasty.warnings[0].find("gemm.sustained.bf16 is of short bursts") == 0);
  CHECK(hasty.device.sources.at("gemm.sustained.bf16").find("; of short bursts") !=
        std::string::npos);
}

TEST_CASE("[F-CAL-7] precisions without steady runs lose what the others lose") {
  const auto bf16 = static_cast<std::size_t>(Precision::kBf16);
  const auto fp16 = static_cast<std::size_t>(Precision::kFp16);
  DeviceSpec burst = h200(), lasting = h200();
  burst.gemm.k_half = lasting.gemm.k_half = 32;
  burst.gemm.output_exposed = lasting.gemm.output_exposed = 0.7;
  burst.gemm.sustained[bf16] = burst.gemm.sustained[fp16] = 0.88;
  lasting.gemm.sustained[bf16] = 0.77;
  std::vector<Sample> samples = products(burst, 0.01);
  const std::size_t half = samples.size();
  for (std::size_t i = 0; i < half; ++i) {
    auto g = std::get<GemmOperation>(samples[i].operation);
    if (std::min({g.m, g.n, g.k}) >= 8192) {
      samples[i].steady =
          SteadyTimes{kernel_model().gemm(lasting, g), 0.004, Seconds{1}, true, 0.7};
    }
    g.precision = Precision::kFp16;
    samples.push_back(sample(g, kernel_model().gemm(burst, g)));
  }
  const DeviceFit fit = fit_device(samples, one_gpu(), h200(), kernel_model());
  CHECK(fit.device.gemm.sustained[bf16] == Approx(0.77).epsilon(0.02));
  CHECK(fit.device.gemm.sustained[fp16] == Approx(0.77).epsilon(0.02));
  CHECK(std::stod(fit.facts.at("gemm.sustained.fp16 of short bursts")) ==
        Approx(0.88).epsilon(0.02));
}

// What bench took on one GPU of each kind (files named in hardware-profiles/devices/*-measured).
std::vector<Sample> recorded(const std::string& name) {
  const std::string path = std::string(MESHPLAN_SOURCE_DIR) + "/test/calibrate/data/" + name;
  return parse_samples(read_text_file(path).value(), path).value().samples;
}

TEST_CASE("[F-CAL-7] shapes that the fit never saw are predicted within 5 % on real GPUs") {
  const std::string name = GENERATE("h200.samples.jsonl", "h100.samples.jsonl");
  CAPTURE(name);
  const DeviceFit fit = fit_device(recorded(name), one_gpu(), h200(), kernel_model());
  const auto number =
      std::find_if(fit.numbers.begin(), fit.numbers.end(),
                   [](const DeviceNumber& n) { return n.key == "gemm.sustained.bf16"; });
  REQUIRE(number != fit.numbers.end());
  CHECK(number->errors.held_out_median <= 0.05);
  CHECK(number->errors.held_out_p90 <= 0.12);
  // Two devices of one die agree on what is of the die.
  CHECK(fit.device.gemm.output_exposed == Approx(0.75).epsilon(0.15));
  CHECK(std::stod(fit.facts.at("gemm.sustained.bf16 of short bursts")) ==
        Approx(0.89).epsilon(0.02));
}

TEST_CASE("[F-CAL-7] memory-bound kernels determine bandwidth and floor") {
  const DeviceSpec start = h200();
  std::vector<Sample> samples;
  for (const std::int64_t rows : {256, 1024, 4096, 16384, 65536}) {
    for (const MemoryKernel kernel : {MemoryKernel::kResidual, MemoryKernel::kRmsNorm}) {
      const MemoryOperation op{.kernel = kernel, .rows = rows, .columns = 4096};
      // 70 % of the nominal bandwidth and 4 us.
      samples.push_back(sample(op, Seconds{4e-6} + traffic(op) / (start.memory_bandwidth * 0.7)));
    }
  }
  const DeviceFit fit = fit_device(samples, one_gpu(), start, kernel_model());
  CHECK(fit.device.memory_efficiency == Approx(0.7).epsilon(0.01));
  CHECK(fit.device.kernel_overhead.si() == Approx(4e-6).epsilon(0.02));
  const DeviceFit few =
      fit_device(std::span(samples).subspan(0, 2), one_gpu(), start, kernel_model());
  CHECK(few.device == start);
  REQUIRE(few.warnings.size() == 1);
  CHECK(few.warnings[0].find("at least four kernels") != std::string::npos);
}

TEST_CASE("[F-CAL-7] attention determines its rates and its half length") {
  DeviceSpec truth = h200();
  truth.attention = {.forward = 0.5, .backward = 0.4, .seq_half = 1200};
  std::vector<Sample> samples;
  for (const std::int64_t length : {1024, 2048, 4096, 8192, 16384}) {
    for (const bool backward : {false, true}) {
      const AttentionOperation op{.batch = 1,
                                  .heads = 32,
                                  .kv_heads = 8,
                                  .queries = length,
                                  .keys = length,
                                  .qk_dim = 128,
                                  .v_dim = 128,
                                  .backward = backward};
      samples.push_back(sample(op, kernel_model().attention(truth, op)));
    }
  }
  const DeviceFit fit = fit_device(samples, one_gpu(), h200(), kernel_model());
  CHECK(fit.device.attention.forward == Approx(0.5).epsilon(0.02));
  CHECK(fit.device.attention.backward == Approx(0.4).epsilon(0.02));
  CHECK(fit.device.attention.seq_half == Approx(1200).epsilon(0.05));
}

TEST_CASE("copies and overlap are medians of what was measured, launches a fact beside them") {
  std::vector<Sample> samples{
      sample(LaunchOperation{}, Seconds{3e-6}),
      sample(LaunchOperation{.graph = true}, Seconds{1e-6}),
      sample(CopyOperation{CopyDirection::kHostToDevice, Bytes{1 << 30}},
             Bytes{1 << 30} / BytesPerSecond{50e9}),
      sample(CopyOperation{CopyDirection::kDeviceToHost, Bytes{1 << 30}},
             Bytes{1 << 30} / BytesPerSecond{52e9}),
      sample(CopyOperation{CopyDirection::kHostToDevice, Bytes{4096}}, Seconds{1e-5}),
      sample(OverlapOperation{}, Seconds{2e-3})};
  samples.back().overlap =
      OverlapTimes{Seconds{1e-3}, Seconds{1e-3}, Seconds{1.15e-3}, Seconds{1e-3}};
  const DeviceFit fit = fit_device(samples, one_gpu(), h200(), kernel_model());
  // launch_gap is a framework's, several times what the driver takes for an empty kernel.
  CHECK(fit.device.launch_gap == h200().launch_gap);
  CHECK(fit.device.sources.at("launch_gap") == h200().sources.at("launch_gap"));
  CHECK(fit.facts.at("empty kernel launch") == "3.00 us");
  CHECK(fit.facts.at("empty kernel launch from a graph") == "1.00 us");
  CHECK(fit.device.host_link.si() == Approx(51e9));
  CHECK(fit.device.overlap_slowdown == Approx(1.15));
  CHECK(validate(fit.device).empty());
}

Machine nodes_of_eight(std::int64_t nodes) {
  Machine m;
  m.backend = "nccl";
  m.nodes = nodes;
  m.ranks_per_node = 8;
  m.versions = {{"nccl", "2.28.9"}, {"driver", "580.1"}, {"mpi", "Open MPI 4.1.4"}};
  m.environment = {{"NCCL_ALGO", "Ring"}};
  for (std::int64_t r = 0; r < nodes * 8; ++r) {
    m.ranks.push_back({.rank = r,
                       .local_rank = r % 8,
                       .node = r / 8,
                       .host = "n" + std::to_string(r / 8),
                       .device = "NVIDIA H100",
                       .device_id = std::to_string(r)});
  }
  return m;
}

TEST_CASE("collectives of a run: level by reach, and what does not count") {
  const ClusterSpec c = load_cluster("dgx-h100", kShipped).value();
  const Machine m = nodes_of_eight(2);
  const auto collective = [](Collective what, RankGroup group) {
    return sample(CollectiveOperation{.collective = what, .bytes = Bytes{1 << 20}, .group = group},
                  Seconds{1e-4});
  };
  std::vector<Sample> samples{
      collective(Collective::kAllReduce, {.size = 8, .stride = 1, .nodes = 1}),
      collective(Collective::kAllReduce, {.size = 2, .stride = 8, .nodes = 2}),
      collective(Collective::kAllReduce,
                 {.size = 16, .stride = 1, .nodes = 2, .concurrent = false}),
      collective(Collective::kAllGather, {.size = 2, .stride = 8, .nodes = 2, .concurrent = false}),
      collective(Collective::kSendRecv, {.size = 2, .stride = 1, .nodes = 1})};
  std::get<CollectiveOperation>(samples[4].operation).bidirectional = true;
  samples.push_back(samples[0]);
  samples.back().correctness = Correctness::kWrong;
  const Result<BenchCollectives> found = bench_collectives(samples, m, c);
  REQUIRE(found.ok());
  REQUIRE(found->samples.size() == 4);
  CHECK(found->samples[0].level == "nvlink");
  CHECK(found->samples[1].level == "rail");
  CHECK(found->samples[1].nodes == 2);
  CHECK(found->samples[2].ranks == 16);  // the only group there is
  CHECK(found->samples[3].bidirectional);
  CHECK_FALSE(found->samples[0].bidirectional);
  CHECK(found->warnings.size() == 2);  // alone, wrong

  Machine sliced = m;
  sliced.time_sliced = true;
  CHECK(bench_collectives(samples, sliced, c)->samples.empty());
  Machine other = m;
  other.ranks_per_node = 4;
  CHECK_FALSE(bench_collectives(samples, other, c).ok());
}

TEST_CASE("ping-pongs are latencies, not times of sends") {
  const ClusterSpec c = load_cluster("dgx-h100", kShipped).value();
  CollectiveOperation op{.collective = Collective::kSendRecv, .bytes = Bytes{8}};
  op.group = {.size = 2, .stride = 8, .nodes = 2};
  op.ping_pong = true;
  const auto found =
      bench_collectives(std::vector{sample(op, Seconds{14e-6})}, nodes_of_eight(2), c);
  REQUIRE(found.ok());
  CHECK(found->samples.empty());
  REQUIRE(found->latencies.size() == 1);
  CHECK(found->latencies[0].level == "rail");
  CHECK(found->latencies[0].time.si() == Approx(7e-6));
}

TEST_CASE("sizes that others disturbed are left out where enough are quiet") {
  const ClusterSpec c = load_cluster("dgx-h100", kShipped).value();
  const Machine m = nodes_of_eight(1);
  std::vector<Sample> samples;
  for (int i = 0; i < 10; ++i) {
    samples.push_back(sample(CollectiveOperation{.bytes = Bytes{std::int64_t{1024} << i},
                                                 .group = {.size = 8, .stride = 1, .nodes = 1}},
                             Seconds{1e-4}));
    samples.back().quiet = i < 8 ? 20 : 2;
  }
  CHECK(bench_collectives(samples, m, c)->samples.size() == 8);
  CHECK(bench_collectives(samples, m, c)->warnings[0].find("2 samples left out: something else") ==
        0);
  // Where the ranks always share their processors nothing is quiet: all of them count.
  for (Sample& s : samples) s.quiet = 0;
  CHECK(bench_collectives(samples, m, c)->samples.size() == 10);
}

TEST_CASE("the provenance of a run names its versions and hosts") {
  const Provenance p = provenance_of(nodes_of_eight(3));
  CHECK(p.method == "meshplan bench (nccl)");
  CHECK(p.host == "n0 and 2 more");
  CHECK(p.gpu == "NVIDIA H100");
  CHECK(p.nccl == "2.28.9");
  CHECK(p.driver == "580.1");
  CHECK(p.notes.at("mpi") == "Open MPI 4.1.4");
  CHECK(p.environment.at("NCCL_ALGO") == "Ring");
}

}  // namespace
}  // namespace meshplan
