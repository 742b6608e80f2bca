#include "probe/samples_file.hpp"

#include "probe/fake_backend.hpp"
#include "support/catch.hpp"

namespace meshplan {
namespace {

const std::vector<Operation>& one_of_each() {
  static const std::vector<Operation> all{
      CollectiveOperation{.collective = Collective::kSendRecv,
                          .bytes = Bytes{1'234'567'890'123},
                          .dtype = Dtype::kFp32,
                          .group = {.size = 2, .stride = 8, .nodes = 2, .concurrent = false},
                          .bidirectional = true},
      CollectiveOperation{.collective = Collective::kSendRecv,
                          .bytes = Bytes{8},
                          .group = {.size = 2},
                          .ping_pong = true},
      GemmOperation{.m = 1,
                    .n = 2,
                    .k = 3,
                    .count = 4,
                    .layout = GemmLayout::kWeightGradient,
                    .precision = Precision::kFp8,
                    .accumulate = true},
      AttentionOperation{.batch = 2,
                         .heads = 8,
                         .kv_heads = 4,
                         .queries = 16,
                         .keys = 32,
                         .qk_dim = 192,
                         .v_dim = 128,
                         .causal = false,
                         .backward = true,
                         .dtype = Dtype::kFp16},
      MemoryOperation{.kernel = MemoryKernel::kAdam, .rows = 5, .columns = 6},
      CopyOperation{.direction = CopyDirection::kBothWays, .bytes = Bytes{7}},
      LaunchOperation{.kernels = 9, .graph = true},
      OverlapOperation{.compute = {.m = 10, .n = 11, .k = 12},
                       .communication = {.bytes = Bytes{13}, .group = {.size = 2}}}};
  return all;
}

TEST_CASE("operations survive being written and read") {
  for (const Operation& op : one_of_each()) {
    const Result<Operation> back = parse_operation(operation_line(op));
    REQUIRE(back);
    CHECK(*back == op);
  }
}

TEST_CASE("a samples file survives being written and read") {
  SamplesFile f;
  f.machine = fake_machine(4, 2);
  f.machine.environment["NCCL_IB_DISABLE"] = "1";
  f.machine.date = "2025-01-31T12:00:00Z";
  for (const Operation& op : one_of_each()) {
    Sample s;
    s.operation = op;
    summarise({{Seconds{1.25e-5}, Seconds{1.5e-5}}}, s);
    s.host_median = Seconds{2e-5};
    s.taken = 7;
    s.clock = 0.9;
    s.steady = SteadyTimes{Seconds{1.3e-5}, 0.004, Seconds{1.2}, true, 0.7};
    s.correctness = Correctness::kCorrect;
    f.samples.push_back(s);
  }
  f.samples.back().overlap = OverlapTimes{Seconds{1}, Seconds{2}, Seconds{3}, Seconds{4}};
  const Result<SamplesFile> back = parse_samples(samples_text(f), "samples.jsonl");
  REQUIRE(back);
  CHECK(*back == f);
}

TEST_CASE("what is wrong with a samples file is named with its line") {
  const std::string machine = machine_line(fake_machine(1, 1)) + "\n";
  struct Row {
    std::string text, message;
    int line;
  };
  const Row row = GENERATE_COPY(values<Row>({
      {"", "there are no measurements in this file", 0},
      {"{", "this line is not JSON, or was cut off", 1},
      {"[]\n", "this line must be a map", 1},
      {"{\"record\":\"sample\"}\n", "this line has the machine's record in the wrong place", 1},
      {machine + machine, "this line has the machine's record in the wrong place", 2},
      {machine + "{\"record\":\"other\"}", "this line has an unknown record 'other'", 2},
      {machine + "\n{\"record\":\"sample\",\"operation\":{\"kind\":\"gem\"}}",
       "this line 'operation' has an unknown kind 'gem'", 3},
      {machine + "{\"record\":\"sample\",\"operation\":{\"kind\":\"copy\",\"direction\":"
                 "\"both-ways\",\"bytes\":-1}}",
       "this line 'operation' 'bytes' must not be negative", 2},
      {machine + "{\"record\":\"sample\",\"operation\":{\"kind\":\"launch\",\"kernels\":1e3,"
                 "\"graph\":false}}",
       "this line 'operation' 'kernels' must be a whole number", 2},
  }));
  const Result<SamplesFile> f = parse_samples(row.text, "s.jsonl");
  REQUIRE_FALSE(f);
  REQUIRE(f.errors().size() == 1);
  CHECK(f.errors()[0].message == row.message);
  CHECK(f.errors()[0].where.line == row.line);
  CHECK(f.errors()[0].where.file == "s.jsonl");
}

TEST_CASE("every prefix of a samples file is read or refused, never more") {
  SamplesFile f;
  f.machine = fake_machine(2, 2);
  f.samples.push_back({.operation = one_of_each().front()});
  const std::string text = samples_text(f);
  for (std::size_t n = 0; n < text.size(); ++n) {
    const Result<SamplesFile> part = parse_samples(text.substr(0, n), "s.jsonl");
    if (part) CHECK(part->samples.size() <= 1);
  }
}

}  // namespace
}  // namespace meshplan
