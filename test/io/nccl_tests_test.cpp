#include "io/nccl_tests.hpp"

#include "support/catch.hpp"

namespace meshplan {
namespace {

// As nccl-tests 2.17 prints them on two nodes of two devices.
constexpr std::string_view kText =
    "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809\n"
    "# Collective test starting: all_gather_perf\n"
    "# nThread 1 nGpus 1 minBytes 1024 maxBytes 4194304 step: 64(factor) warmup iters: 1 iters: 20 "
    "agg iters: 1 validation: 1 graph: 0\n"
    "#\n"
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid   1887 on   worker-1 device  0 [0000:8d:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid   1888 on   worker-1 device  1 [0000:9d:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  2 Group  0 Pid   1901 on   worker-2 device  0 [0000:8d:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  3 Group  0 Pid   1902 on   worker-2 device  1 [0000:9d:00] NVIDIA H100 80GB HBM3\n"
    "#\n"
    "#                                                              out-of-place               "
    "        in-place          \n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     "
    "time   algbw   busbw  #wrong \n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             "
    "(us)  (GB/s)  (GB/s)         \n"
    "           0             0     float    none      -1     0.08    0.00    0.00       0     "
    "0.08    0.00    0.00       0\n"
    "        1024            64     float    none      -1    24.31    0.04    0.03       0    "
    "23.90    0.04    0.03       0\n"
    "       65536          4096     float    none      -1    30.12    2.18    1.63       0    "
    "29.85    2.20    1.65       0\n"
    "     4194304        262144     float    none      -1  1.2e+05   34.71   26.03       3    "
    "119.20   35.19   26.39     N/A\n"
    "# Out of bounds values : 0 OK\n"
    "# Avg bus bandwidth    : 9.34 \n"
    "#\n"
    "# Collective test concluded: all_gather_perf\n";

std::string errors_of(const Result<std::vector<NcclTestsRun>>& result) {
  REQUIRE_FALSE(result.ok());
  return to_text(result.errors());
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("a log of nccl-tests: operation, ranks, nodes, out-of-place times") {
  const auto runs = parse_nccl_tests(kText, "run.log");
  REQUIRE(runs.ok());
  REQUIRE(runs->size() == 1);
  const NcclTestsRun& run = runs->front();
  CHECK(run.operation == Collective::kAllGather);
  CHECK(run.ranks == 4);
  CHECK(run.nodes == 2);
  CHECK(run.gpu == "NVIDIA H100 80GB HBM3");
  CHECK(run.hosts == std::vector<std::string>{"worker-1", "worker-2"});
  CHECK(run.provenance.method == "nccl-tests 2.17.6");
  CHECK(run.provenance.nccl == "2.28.9");
  CHECK(run.provenance.host == "worker-1 and 1 more");
  REQUIRE(run.rows.size() == 3);  // nothing was sent in the first
  CHECK(run.rows[0].bytes == Bytes{1024});
  CHECK(run.rows[0].time.si() == Approx(24.31e-6));
  CHECK(run.rows[0].wrong == 0);
  CHECK(run.rows[1].bytes == Bytes{65536});
  CHECK(run.rows[2].time.si() == Approx(0.12));
  CHECK(run.rows[2].wrong == 3);
}

TEST_CASE("several runs of one log are kept apart") {
  const std::string second =
      replaced(std::string(kText), "all_gather_perf", "./build/alltoall_perf");
  const auto runs = parse_nccl_tests(std::string(kText) + second, "run.log");
  REQUIRE(runs.ok());
  REQUIRE(runs->size() == 2);
  CHECK(runs->at(1).operation == Collective::kAllToAll);
  CHECK(runs->at(1).ranks == 4);
}

TEST_CASE(
    "logs of old versions: no version, no group, no root, the largest error, a short PCI id") {
  constexpr std::string_view kOld =
      "# nThread 1 nGpus 2 minBytes 8 maxBytes 128 step: 2(factor) warmup iters: 5 iters: 20 "
      "validation: 1 \n"
      "#\n"
      "# Using devices\n"
      "#   Rank  0 Pid  20128 on  node device  0 [0x1b] Tesla V100-SXM2-32GB\n"
      "#   Rank  1 Pid  20128 on  node device  1 [0x1c] Tesla V100-SXM2-32GB\n"
      "#\n"
      "#       size         count    type   redop     time   algbw   busbw  error     time   algbw "
      "  busbw  error\n"
      "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s) "
      " (GB/s)       \n"
      "           8             2   float     sum    10.45    0.00    0.00  0e+00    10.37    0.00 "
      "   0.00  0e+00\n"
      "          16             4   float            10.50    0.00    0.00  2e-07    10.37    0.00 "
      "   0.00  0e+00\n";
  const auto runs = parse_nccl_tests(kOld, "logs/all_reduce_perf_2gpus.txt");
  REQUIRE(runs.ok());
  const NcclTestsRun& run = runs->front();
  CHECK(run.operation == Collective::kAllReduce);  // from the file's name
  CHECK(run.ranks == 2);
  CHECK(run.nodes == 1);
  CHECK(run.gpu == "Tesla V100-SXM2-32GB");
  REQUIRE(run.rows.size() == 2);
  CHECK(run.rows[1].time.si() == Approx(10.5e-6));
  CHECK(run.rows[0].wrong == 0);
  CHECK(run.rows[1].wrong == 0);  // 2e-07 is rounding in fp32
  const auto bad =
      parse_nccl_tests(replaced(std::string(kOld), "2e-07", "3e-03"), "all_reduce.txt");
  REQUIRE(bad.ok());
  CHECK(bad->front().rows[1].wrong == 1);
  // Without the name the operation must be stated.
  CHECK(errors_of(parse_nccl_tests(kOld, "x.log")).find("--operation") != std::string::npos);
  const auto stated = parse_nccl_tests(kOld, "x.log", Collective::kBroadcast);
  REQUIRE(stated.ok());
  CHECK(stated->front().operation == Collective::kBroadcast);
}

TEST_CASE("per-iteration columns, time stamps and mpirun's labels are read past") {
  constexpr std::string_view kHead =
      "# Collective test starting: sendrecv_perf\n"
      "# Using devices\n"
      "[1,0]<stdout>:#  Rank  0 Group  0 Pid 1 on a device  0 [0000:1b:00] GPU\n"
      "[1,0]<stdout>:#  Rank  1 Group  0 Pid 2 on a device  1 [0000:1c:00] GPU\n";
  const auto stamped = parse_nccl_tests(
      std::string(kHead) +
          "[1,0]<stdout>:# size count type redop root time algbw busbw #wrong time algbw busbw "
          "#wrong timestamp\n"
          "[1,0]<stdout>: 1024 256 float sum -1 5.00 0.2 0.2 0 5.10 0.2 0.2 N/A 2025-06-01 "
          "12:00:00\n",
      "x");
  REQUIRE(stamped.ok());
  REQUIRE(stamped->front().rows.size() == 1);
  CHECK(stamped->front().rows[0].time.si() == Approx(5e-6));
  const auto detailed = parse_nccl_tests(
      std::string(kHead) +
          "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time algbw "
          "busbw #wrong i_min i_max i_p99 i_cv%\n"
          " 1024 256 float sum -1 5.00 0.2 0.2 0 4.1 6.0 5.9 3.0 5.10 0.2 0.2 N/A 4 6 5.9 3\n",
      "x");
  REQUIRE(detailed.ok());
  CHECK(detailed->front().rows.at(0).time.si() == Approx(5e-6));
}

TEST_CASE("groups of a split communicator count alone") {
  // NCCL_TESTS_SPLIT: two groups of two, each across both nodes.
  std::string text(kText);
  text = replaced(text, "Rank  1 Group  0", "Rank  1 Group  1");
  text = replaced(text, "Rank  3 Group  0", "Rank  3 Group  1");
  const auto runs = parse_nccl_tests(text, "run.log");
  REQUIRE(runs.ok());
  CHECK(runs->front().ranks == 2);
  CHECK(runs->front().nodes == 2);
}

TEST_CASE("what cannot be used of a log is said, with its line") {
  const std::string text(kText);
  CHECK(errors_of(parse_nccl_tests("hello\n", "x")).find("no results") != std::string::npos);
  CHECK(errors_of(parse_nccl_tests(replaced(text, "all_gather_perf", "gather_perf"), "x"))
            .find("'gather_perf' is of no operation that plans use") != std::string::npos);
  CHECK(errors_of(parse_nccl_tests(replaced(text, "Rank  3 Group  0", "Rank  3 Group  1"), "x"))
            .find("different shapes") != std::string::npos);
  CHECK(errors_of(parse_nccl_tests(replaced(text, "on   worker-2", "on   worker-1"), "x"))
            .find("different numbers of ranks") != std::string::npos);
  const std::string cut = errors_of(
      parse_nccl_tests(replaced(text, "    24.31    0.04    0.03       0", "  24.31"), "x"));
  CHECK(cut.find("x:15:1: error: the row has 10 columns, its header 13") != std::string::npos);
  CHECK(errors_of(parse_nccl_tests(replaced(text, "24.31", "fast"), "x"))
            .find("no size and time that can be read") != std::string::npos);
  for (const char* time : {"1e-290", "1e200", "4e9"}) {
    CHECK(errors_of(parse_nccl_tests(replaced(text, "24.31", time), "x"))
              .find("x:15:1: error: a time is not from a nanosecond to an hour") !=
          std::string::npos);
  }
  CHECK(errors_of(parse_nccl_tests(replaced(text, "     4194304 ", "9000000000000000001 "), "x"))
            .find("a size is more than 9 PB") != std::string::npos);
}

TEST_CASE("the JSON that -J writes") {
  constexpr std::string_view kJson =
      R"({"version":2,"start_time":"2025-06-01 12:00:00","args":[".\/build\/all_reduce_perf","-g",
"2"],"env":["HOME=\/home","NCCL_ALGO=Ring","EMPTY"],"nccl_version":22809,
"config":{"nthreads":1,"ngpus":2,"minimum_bytes":8,"blocking_collectives":"false",
"devices":[{"rank":0,"group":0,"pid":17,"hostname":"a","device":0,"device_hex":"[0000:1b:00",
"device_info":"NVIDIA H200"},{"rank":2,"group":0,"pid":18,"hostname":"b","device":0,
"device_hex":"[0000:1b:00","device_info":"NVIDIA H200"}]},
"results":[{"size":1024,"count":256,"type":"float","redop":"sum","root":"    -1",
"out_of_place":{"time":24.310000,"alg_bw":0.042,"bus_bw":0.063,"nwrong":0.000000},
"in_place":{"time":23.900000,"alg_bw":0.043,"bus_bw":0.064,"nwrong":null},"actual_iterations":20},
{"size":2048,"count":512,"type":"float","redop":"sum","root":"    -1","out_of_place":null,
"in_place":{"time":23.9,"alg_bw":0.043,"bus_bw":0.064,"nwrong":null},"actual_iterations":20},
{"size":4096,"count":1024,"type":"float","redop":"sum","root":"    -1",
"out_of_place":{"cpu_time":30.5,"alg_bw":0.1,"bus_bw":0.2,"nwrong":2.0},"actual_iterations":20}],
"out_of_bounds":{"count":0,"okay":"true"},"average_bus_bandwidth":{"bandwidth":0.06,
"okay":"unchecked"},"end_time":"2025-06-01 12:00:09","errors":[]})";
  const auto runs = parse_nccl_tests(kJson, "r.json");
  REQUIRE(runs.ok());
  const NcclTestsRun& run = runs->front();
  CHECK(run.operation == Collective::kAllReduce);
  CHECK(run.ranks == 4);  // two processes of two devices, each listing its first
  CHECK(run.nodes == 2);
  CHECK(run.provenance.date == "2025-06-01 12:00:00");
  CHECK(run.provenance.nccl == "2.28.9");
  CHECK(run.provenance.environment == std::map<std::string, std::string>{{"NCCL_ALGO", "Ring"}});
  REQUIRE(run.rows.size() == 2);
  CHECK(run.rows[0].time.si() == Approx(24.31e-6));
  CHECK(run.rows[1].bytes == Bytes{4096});
  CHECK(run.rows[1].time.si() == Approx(30.5e-6));
  CHECK(run.rows[1].wrong == 2);
  CHECK(errors_of(parse_nccl_tests(replaced(std::string(kJson), "24.310000", "1e-290"), "r.json"))
            .find("a time is not from a nanosecond to an hour") != std::string::npos);
  CHECK(errors_of(parse_nccl_tests("{\"args\":[\"all_reduce_perf\"]}", "r.json"))
            .find("'config' is missing") != std::string::npos);
}

TEST_CASE("NCCL's version numbers are told apart by their size") {
  // NCCL_VERSION of nccl.h: X * 1000 + Y * 100 + Z up to 2.8, X * 10000 + Y * 100 + Z after it.
  std::string text(kText);
  const auto runs =
      parse_nccl_tests(replaced(text, "nccl-library=22809", "nccl-library=2708"), "x");
  REQUIRE(runs.ok());
  CHECK(runs->front().provenance.nccl == "2.7.8");
}

}  // namespace
}  // namespace meshplan
