#include "compare/kineto.hpp"

#include <fstream>
#include <zlib.h>

#include "compare/trace_measure.hpp"
#include "cost/step.hpp"
#include "io/load.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace meshplan {
namespace {

std::vector<DeviceTrace> read(std::string_view text) {
  Result<std::vector<DeviceTrace>> all = read_chrome_trace(ByteStream::of(text), "t.json");
  if (!all.ok()) FAIL(to_text(all.errors()));
  return *std::move(all);
}

// Events as Kineto writes them (libkineto/src/output_json.cpp), shortened.
constexpr std::string_view kEvents = R"json(
  {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 5, "tid": 1, "ts": 1000000000000000.5,
   "dur": 10, "args": {"External id": 7, "Input Dims": [[512], [1024, 1705], [1705, 512], [], []],
   "Input type": ["float", "float", "float", "Scalar", "Scalar"]}},
  {"ph": "X", "cat": "kernel", "name": "sm80_xmma_gemm_bf16", "pid": 3, "tid": 7,
   "ts": 1000000000000100.5, "dur": 20.5,
   "args": {"External id": 7, "device": 3, "stream": 7, "correlation": 7, "grid": [64, 1, 1]}},
  {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllGather_RING_LL(x)", "pid": 3, "tid": 9,
   "ts": 1000000000000050.5, "dur": 100, "args": {"External id": 8, "device": 3, "stream": 9,
   "Collective name": "_allgather_base", "In msg nelems": 100, "Out msg nelems": 400,
   "Group size": 4, "dtype": "BFloat16", "Process Group Description": "default_pg",
   "Process Group Ranks": "[0, 1, 2, 3]"}},
  {"ph": "i", "s": "g", "name": "Iteration Start", "pid": 5, "tid": 1, "ts": 1000000000000000.5})json";

std::string document(std::string_view events) {
  return "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"H100\"}],\n"
         "\"distributedInfo\": {\"rank\": 3, \"world_size\": 8, \"pg_config\": [{\"ranks\": [0, "
         "1]}]},"
         "\n\"traceEvents\": [" +
         std::string(events) + "],\n\"traceName\": \"x\"}";
}

void check_events(const DeviceTrace& t) {
  REQUIRE(t.ops.size() == 2);
  const DeviceOp &gather = t.ops[0], &product = t.ops[1];
  CHECK(gather.start == Approx(50));
  CHECK(gather.comm == CommKind::kAllGather);
  CHECK(gather.bytes == 800);
  CHECK(t.groups[gather.group].ranks == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(product.duration == Approx(20.5));
  CHECK(t.names[product.name].cls == OpClass::kProduct);
  CHECK(t.shapes[product.shape] == ProductShape{1024, 512, 1705, 1});
}

TEST_CASE("a trace of PyTorch's profiler") {
  const auto all = read(document(kEvents));
  REQUIRE(all.size() == 1);
  check_events(all.front());
  CHECK(all.front().rank == 3);
  CHECK(all.front().world == 8);
  CHECK(all.front().notes.empty());
}

TEST_CASE("kernels of earlier steps that a lagging device still runs are left out") {
  constexpr std::string_view kLagging = R"json([
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 0, "dur": 90,
     "args": {"device": 0, "stream": 7}},
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#5", "pid": 9, "tid": 1, "ts": 10,
     "dur": 20},
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#6", "pid": 9, "tid": 1, "ts": 30,
     "dur": 20},
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 100, "dur": 80,
     "args": {"device": 0, "stream": 7}},
    {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#5", "pid": 0, "tid": 7,
     "ts": 100, "dur": 80},
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 190, "dur": 80,
     "args": {"device": 0, "stream": 7}},
    {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#6", "pid": 0, "tid": 7,
     "ts": 190, "dur": 80}])json";
  const auto all = read(kLagging);
  REQUIRE(all.size() == 1);
  const DeviceTrace& t = all.front();
  CHECK(t.steps.size() == 2);
  REQUIRE(t.ops.size() == 2);
  CHECK(t.ops.front().start == 100);
  // Its own steps begin when the device is done with the ones before, not when the host marks them.
  CHECK(t.earlier_until == 90);
  const ModelSpec m = *load_model("llama-3.1-8b", DataFolders::standard());
  const ClusterSpec c = with_gpus(*load_cluster("dgx-h100", DataFolders::standard()), 1);
  Strategy s;
  s.dp = 1, s.global_batch = 1, s.seq_len = 1024;
  const DeviceMeasure measured = measured_device(t, cost_of(m, c, complete(s, m, c)));
  CHECK(measured.step.si() == Approx((270 - 90) / 2 * 1e-6));
  CHECK(measured.of(OpClass::kProduct).count == Approx(1));
}

TEST_CASE("a bare list of events") {
  const auto all = read("[" + std::string(kEvents) + "]");
  REQUIRE(all.size() == 1);
  check_events(all.front());
  CHECK(all.front().rank == -1);
}

TEST_CASE("a trace that breaks off gives what it holds and says so") {
  const std::string text = document(kEvents);
  const auto all = read(text.substr(0, text.find("\"ph\": \"i\"")));
  check_events(all.front());
  REQUIRE(all.front().notes.size() == 1);
  CHECK(all.front().notes.front() == "the file breaks off: what it holds is used");
  std::string damaged = text;
  damaged.replace(damaged.find("\"ph\": \"i\""), 4, "@@@@");
  const auto some = read(damaged);
  check_events(some.front());
  CHECK(some.front().notes.front().find("the file is damaged: parse error at line") == 0);
}

TEST_CASE("a gzipped trace, whole and broken off") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "rank-3.json.gz").string();
  const gzFile file = gzopen(path.c_str(), "wb");
  const std::string text = document(kEvents);
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  Result<ByteStream> bytes = ByteStream::open(path);
  REQUIRE(bytes.ok());
  const auto all = read_chrome_trace(std::move(bytes).value(), path);
  REQUIRE(all.ok());
  check_events(all->front());

  std::ifstream in(path, std::ios::binary);
  std::string packed((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      << packed.substr(0, packed.size() * 19 / 20);
  Result<ByteStream> cut = ByteStream::open(path);
  REQUIRE(cut.ok());
  const auto some = read_chrome_trace(std::move(cut).value(), path);
  if (some.ok()) CHECK(some->front().notes.front().find("the gzipped data break off") == 0);
  if (!some.ok()) CHECK(to_text(some.errors()).find("gzipped data break off") != std::string::npos);
}

TEST_CASE("what is no trace is refused") {
  for (const char* text :
       {"", "{}", "[]", "42", "{\"traceEvents\": 3}", "nothing", "[[[[", "{\"a\":"}) {
    const auto all = read_chrome_trace(ByteStream::of(text), "t.json");
    CHECK_FALSE(all.ok());
  }
  CHECK_FALSE(read_chrome_trace(ByteStream::of(std::string(100'000, '[')), "t.json").ok());
  CHECK_FALSE(ByteStream::open("/nowhere/t.json").ok());
  CHECK_FALSE(ByteStream::open("/").ok());
}

TEST_CASE("ranks by the names of files") {
  CHECK(rank_of_name("/a/rank0/rank-12.json.gz") == 12);
  CHECK(rank_of_name("trace_rank_7.json") == 7);
  CHECK(rank_of_name("rank3_trace.json") == 3);
  CHECK(rank_of_name("trace.json") == -1);
}

TEST_CASE("kernels by their names") {
  const auto cls = [](const char* name) { return classified(name).cls; };
  CHECK(cls("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT") == OpClass::kProduct);
  CHECK(cls("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64>") == OpClass::kProduct);
  CHECK(cls("Cijk_Ailk_Bljk_BBS_BH_MT128x128x32") == OpClass::kProduct);
  CHECK(cls("void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<cutlass::bfloat16_t>") ==
        OpClass::kAttention);
  CHECK(cls("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma") == OpClass::kAttention);
  CHECK(cls("void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor>") ==
        OpClass::kOptimizer);
  CHECK(cls("void softmax_warp_forward<c10::BFloat16>") == OpClass::kSoftmax);
  CHECK(cls("void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel") == OpClass::kNorm);
  CHECK(cls("Memcpy DtoH (Device -> Pageable)") == OpClass::kCopy);
  CHECK(cls("triton_poi_fused_add_mul_0") == OpClass::kElementwise);
  CHECK(cls("_permute_kernel") == OpClass::kRouting);
  CHECK(classified("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL").comm ==
        CommKind::kReduceScatter);
  CHECK(classified("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t").comm == CommKind::kSendRecv);
  CHECK(classified("rmsnorm_bwd_kernel").direction == Direction::kBackward);
  CHECK(classified("ampere_sgemm_128x64_nn").wide);
  CHECK_FALSE(classified("ampere_bf16_s16816gemm_bf16_128x64").wide);
}

}  // namespace
}  // namespace meshplan
