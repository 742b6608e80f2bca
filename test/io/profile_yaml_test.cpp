#include "io/profile_yaml.hpp"

#include "base/quantity.hpp"
#include "io/load.hpp"
#include "io/yaml_text.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

const DataFolders kShipped({MESHPLAN_SOURCE_DIR});

TEST_CASE("quantities are written in the unit that suits them and read back exactly") {
  CHECK(yaml_bytes(Bytes{64 * kMiB}) == "64 MiB");
  CHECK(yaml_bytes(Bytes{2'000'000'000'000}) == "2 TB");
  CHECK(yaml_bytes(Bytes{1001}) == "1001 B");
  CHECK(yaml_bytes(Bytes{0}) == "0 B");
  CHECK(yaml_time(parse_time("15.2 us").value()) == "15.2 us");
  CHECK(yaml_time(Seconds{15.23456789e-6}, Digits::kSix) == "15.2346 us");
  CHECK(yaml_bandwidth(BytesPerSecond{450e9}) == "450 GB/s");
  CHECK(yaml_bandwidth(BytesPerSecond{0}) == "0 B/s");
  CHECK(yaml_flop_rate(FlopsPerSecond{989.4e12}) == "989.4 TFLOP/s");
  for (const double value : {1.0 / 3, 1e-7 / 3, 12345.678901234567, 5e-324}) {
    const Result<Seconds> read = parse_time(yaml_time(Seconds{value}));
    REQUIRE(read.ok());
    CHECK(read->si() == value);
  }
}

TEST_CASE("text that YAML would read as something else is quoted") {
  CHECK(yaml_text("h100-sxm-80gb") == "h100-sxm-80gb");
  CHECK(yaml_text("on") == "\"on\"");
  CHECK(yaml_text("2.28.9") == "\"2.28.9\"");
  CHECK(yaml_text("a: b # c") == "\"a: b # c\"");
  CHECK(yaml_text("") == "\"\"");
  CHECK(yaml_text("line\nbreak") == "\"line\\nbreak\"");
}

TEST_CASE("keys from outside stay keys, whatever they hold") {
  ClusterSpec c = load_cluster("dgx-h100", kShipped).value();
  const std::map<std::string, std::string> hostile{{"NCCL_A: 1\nnodes: 7\nx", "1"},
                                                   {"NCCL_D: {a", "b"},
                                                   {"NCCL_E\t", "1"},
                                                   {"\"q': b", "a"},
                                                   {"memory: x\n  evil: 1", "a"},
                                                   {"# k", "v"},
                                                   {"- k", "v"},
                                                   {"NULL", "v"},
                                                   {"Yes", "v"},
                                                   {"k ", "v"},
                                                   {"k\x7f", "v\x7f"},
                                                   {"\u2028", "\u0085"}};
  c.measured = Provenance{};
  c.measured->method = "m";
  c.measured->environment = c.measured->notes = c.device.sources = hostile;
  for (const auto& [name, value] : hostile)
    c.seen_runs.push_back({name, {{name, -0.5}, {"memory_efficiency", 0.25}}, -0.125, 0.01});
  const std::string text = cluster_yaml(c, DeviceForm::kInline);
  const Result<ClusterSpec> back = parse_cluster(text, "x", kShipped);
  if (!back.ok()) FAIL(to_text(back.errors()));
  CHECK(*back == c);
  // What needs no quotes has none.
  c.measured->environment = {{"NCCL_ALGO", "ring"}};
  c.measured->notes = {{"time slices", "some"}};
  c.device.sources = {{"peak.bf16", "x"}};
  const std::string plain = cluster_yaml(c, DeviceForm::kInline);
  for (const char* line :
       {"\n    NCCL_ALGO: ring\n", "\n    time slices: some\n", "\n    peak.bf16: x\n"}) {
    CHECK(plain.find(line) != std::string::npos);
  }
}

TEST_CASE("comments stay comments, whatever ends a line") {
  const DeviceSpec d = load_device("h100-sxm-80gb", kShipped).value();
  for (const char* comment : {"a\nname: b", "a\rname: b", "a\u0085name: b", "a\u2028name: b",
                              "a\u2029name: b", "a\x1b[2J", "a\xffname: b", "\n\n", "\t"}) {
    const std::string text = device_yaml(d, comment);
    INFO(text.substr(0, 40));
    const std::string above = text.substr(0, text.find("\nname: h100"));
    CHECK(above.find_first_of("\r\x1b\x85\xe2\xff") == std::string::npos);
    const Result<DeviceSpec> back = parse_device(text, "x");
    REQUIRE(back.ok());
    CHECK(*back == d);
  }
}

TEST_CASE("every shipped cluster and device reads back from what is written of it") {
  for (const std::string& name : kShipped.names(kClusterFolder)) {
    INFO(name);
    const Result<ClusterSpec> c = load_cluster(name, kShipped);
    REQUIRE(c.ok());
    for (const DeviceForm form : {DeviceForm::kName, DeviceForm::kInline}) {
      const Result<ClusterSpec> back = parse_cluster(cluster_yaml(*c, form, "a\nb"), "x", kShipped);
      REQUIRE(back.ok());
      CHECK(*back == *c);
    }
  }
  for (const std::string& name : kShipped.names(kDeviceFolder)) {
    INFO(name);
    const Result<DeviceSpec> d = load_device(name, kShipped);
    REQUIRE(d.ok());
    const Result<DeviceSpec> back = parse_device(device_yaml(*d), "x");
    REQUIRE(back.ok());
    CHECK(*back == *d);
  }
}

TEST_CASE("a measured device says when, where and with what, and reads back") {
  Provenance p;
  p.method = "meshplan bench (nccl)";
  p.date = "2025-06-01T00:00:00Z";
  p.host = "worker: 1";
  p.gpu = "NVIDIA H200";
  p.cuda = "13.0";
  p.notes["empty kernel launch"] = "2.10 us";
  p.environment["CUDA_DEVICE_MAX_CONNECTIONS"] = "1";
  const DeviceSpec shipped =
      load_device("h200-sxm-141gb", DataFolders({MESHPLAN_SOURCE_DIR})).value();
  const DeviceSpec d = with_provenance(shipped, p);
  const std::string text = device_yaml(d, "measured");
  CHECK(text.find("\nmeasured:\n") != std::string::npos);
  CHECK(text.find("  empty kernel launch: \"2.10 us\"\n") != std::string::npos);
  CHECK(text.find("  driver:") == std::string::npos);  // not known
  CHECK(text.find("measured.") == std::string::npos);
  const Result<DeviceSpec> back = parse_device(text, "x");
  REQUIRE(back.ok());
  CHECK(*back == d);
  CHECK(back->sources.at("measured.host") == "worker: 1");
  CHECK(back->sources.at("measured.CUDA_DEVICE_MAX_CONNECTIONS") == "1");
  CHECK(device_yaml(*back, "measured") == text);
  CHECK_FALSE(parse_device(device_yaml(d) + "measured: [1]\n", "x").ok());
}

TEST_CASE("a measured cluster keeps its curves, samples, errors and provenance") {
  ClusterSpec c = load_cluster("dgx-h100", kShipped).value();
  const std::vector<TimedSize> sizes{{Bytes{1024}, Seconds{15.5e-6}},
                                     {Bytes{1 << 20}, Seconds{28e-6}}};
  c.collectives = {{.operation = Collective::kAllToAll,
                    .level = "rail",
                    .ranks = 16,
                    .nodes = 2,
                    .points = sizes,
                    .summary = AlphaBeta{Seconds{15e-6}, BytesPerSecond{80e9}, 0.125},
                    .errors = FitErrors{0.01, 0.02, 0.03, 0.04, 2, 1},
                    .samples = sizes}};
  c.measured = Provenance{.method = "nccl-tests",
                          .date = "2025-06-01",
                          .host = "a: \"b\"",
                          .gpu = "NVIDIA H100",
                          .driver = "570.1",
                          .cuda = "13.0",
                          .nccl = "2.28.9",
                          .environment = {{"NCCL_ALGO", "Ring"}},
                          .notes = {{"ranks", "time-sliced"}}};
  const Result<ClusterSpec> back = parse_cluster(cluster_yaml(c, DeviceForm::kName), "x", kShipped);
  if (!back.ok()) FAIL(to_text(back.errors()));
  CHECK(back->measured == c.measured);
  REQUIRE(back->collectives.size() == 1);
  const CollectiveFit& fit = back->collectives[0];
  CHECK(fit.operation == Collective::kAllToAll);
  CHECK(fit.errors == c.collectives[0].errors);
  CHECK(fit.summary->bandwidth.si() == Approx(80e9));
  REQUIRE(fit.points.size() == 2);
  CHECK(fit.points[1].first == Bytes{1 << 20});
  CHECK(fit.points[1].second.si() == Approx(28e-6));
  CHECK(fit.samples.size() == 2);
}

}  // namespace
}  // namespace meshplan
