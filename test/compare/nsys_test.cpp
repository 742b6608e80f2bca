#include "compare/nsys.hpp"

#include <filesystem>
#include <fstream>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

#ifdef MESHPLAN_SQLITE
#include <sqlite3.h>

namespace meshplan {
namespace {

// Tables as 'nsys export --type sqlite' writes them, with the columns that are read.
std::string export_in(const TemporaryFolder& folder) {
  const std::string path = (folder.path() / "rank-5.sqlite").string();
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
  const char* script = R"sql(
    CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
    INSERT INTO StringIds VALUES (1, 'nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT'),
      (2, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL'), (3, 'cudaMalloc_v3020'), (4, 'cudaFreeAsync');
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT,
      demangledName INT);
    INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1005000, 1025000, 0, 7, 1),
      (1000000, 1015000, 0, 20, 2);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, deviceId INT, streamId INT,
      copyKind INT);
    INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1030000, 1031000, 0, 7, 2);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, nameId INT);
    INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000000, 1002000, 3), (1000000, 1002000, 4);
    CREATE TABLE NVTX_EVENTS (start INT, end INT, text TEXT, textId INT);
    INSERT INTO NVTX_EVENTS VALUES (990000, 1040000, 'iteration12', NULL), (1, 2, 'other', NULL);
  )sql";
  char* message = nullptr;
  const int code = sqlite3_exec(db, script, nullptr, nullptr, &message);
  INFO((message == nullptr ? "" : message));
  REQUIRE(code == SQLITE_OK);
  sqlite3_close(db);
  return path;
}

TEST_CASE("an export of Nsight Systems") {
  const TemporaryFolder folder;
  const std::string path = export_in(folder);
  CHECK(is_sqlite(path));
  const auto all = read_nsys(path);
  if (!all.ok()) FAIL(to_text(all.errors()));
  REQUIRE(all->size() == 1);
  const DeviceTrace& t = all->front();
  CHECK(t.rank == 5);
  REQUIRE(t.ops.size() == 3);
  CHECK(t.ops[0].comm == CommKind::kAllReduce);
  CHECK(t.ops[0].start == Approx(0));
  CHECK(t.ops[1].start == Approx(5));
  CHECK(t.ops[1].duration == Approx(20));
  CHECK(t.names[t.ops[1].name].cls == OpClass::kProduct);
  CHECK(t.names[t.ops[2].name].cls == OpClass::kCopy);
  REQUIRE(t.steps.size() == 1);
  CHECK(t.steps[0].start == Approx(-10));
  CHECK(t.allocations == 1);
}

TEST_CASE("an export with PyTorch's marks says sizes and directions") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "marks.sqlite").string();
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
  // Two processes (16777216 and 33554432) whose correlations are the same numbers.
  const char* script = R"sql(
    CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
    INSERT INTO StringIds VALUES (1, 'nvjet_tst_128x256'), (2, 'cudaLaunchKernel'),
      (3, 'aten::mm, seq = 7, op_id = 3, sizes = [[64, 32], [32, 16]]');
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT,
      demangledName INT, correlationId INT, globalPid INT);
    INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
      (30000, 31000, 0, 7, 1, 5, 16777216), (32000, 33000, 0, 7, 1, 6, 16777216),
      (34000, 35000, 0, 7, 1, 7, 16777216), (30000, 31000, 1, 7, 1, 5, 33554432);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId INT,
      nameId INT);
    INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (11000, 11500, 16777217, 5, 2),
      (14500, 14600, 16777218, 6, 2), (19000, 19500, 16777217, 7, 2),
      (11000, 11500, 33554433, 5, 2);
    CREATE TABLE NVTX_EVENTS (start INT, end INT, text TEXT, textId INT, globalTid INT);
    INSERT INTO NVTX_EVENTS VALUES (10000, 12000, NULL, 3, 16777217),
      (10000, 12000, 'aten::linear, sizes = [[64, 32], [16, 32], []]', NULL, 16777217),
      (13000, 16000, 'autograd::engine::evaluate_function: MmBackward0', NULL, 16777218),
      (14000, 15000, 'aten::bmm, seq = 8, sizes = [[2, 8, 4], [2, 4, 6]]', NULL, 16777218);
  )sql";
  REQUIRE(sqlite3_exec(db, script, nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(db);
  const auto all = read_nsys(path);
  if (!all.ok()) FAIL(to_text(all.errors()));
  REQUIRE(all->size() == 2);
  const DeviceTrace& t = all->front();
  REQUIRE(t.ops.size() == 3);
  CHECK(t.shapes[t.ops[0].shape] == ProductShape{64, 16, 32, 1});
  CHECK(t.ops[0].direction == Direction::kForward);
  CHECK(t.shapes[t.ops[1].shape] == ProductShape{8, 6, 4, 2});
  CHECK(t.ops[1].direction == Direction::kBackward);
  CHECK(t.ops[2].shape == 0);          // launched outside of every operator
  CHECK((*all)[1].ops[0].shape == 0);  // another process, whose threads mark nothing
}

TEST_CASE("an export that is cut short, and what is no database") {
  const TemporaryFolder folder;
  const std::string path = export_in(folder);
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto read = [](std::string_view text) {
    return read_nsys_bytes({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, "x");
  };
  CHECK(read(bytes).ok());
  CHECK_FALSE(read(std::string_view(bytes).substr(0, 4096)).ok());
  CHECK_FALSE(read("nothing").ok());
  CHECK_FALSE(read("").ok());
  CHECK_FALSE(read_nsys("/nowhere.sqlite").ok());
  CHECK_FALSE(is_sqlite("/nowhere.sqlite"));
}

}  // namespace
}  // namespace meshplan
#endif
