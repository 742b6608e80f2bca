#include "compare/nsys.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <map>
#include <unordered_map>

#include "compare/kineto.hpp"
#include "compare/launch_ranges.hpp"

#ifdef MESHPLAN_SQLITE
#include <sqlite3.h>
#endif

namespace meshplan {

bool is_sqlite(const std::string& path) {
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  if (path == "-") return false;
  std::ifstream file(path, std::ios::binary);
  std::array<char, 16> begin{};
  file.read(begin.data(), begin.size());
  return file.gcount() == 16 && std::string_view(begin.data(), begin.size()) == kMagic;
}

#ifndef MESHPLAN_SQLITE

bool has_sqlite() { return false; }

Result<std::vector<DeviceTrace>> read_nsys(const std::string& path) {
  return error_at({path}, "is SQLite's, which this program was built without",
                  "install libsqlite3-dev and build it again");
}

Result<std::vector<DeviceTrace>> read_nsys_bytes(std::span<const std::uint8_t>,
                                                 const std::string& file) {
  return read_nsys(file);
}

#else

bool has_sqlite() { return true; }

namespace {

class Database {
 public:
  Database() = default;
  ~Database() { sqlite3_close(handle_); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  bool open(const std::string& path) {
    const bool opened =
        sqlite3_open_v2(path.c_str(), &handle_, SQLITE_OPEN_READONLY, nullptr) == SQLITE_OK;
    return opened && harden();
  }
  bool open(std::span<const std::uint8_t> bytes) {
    if (sqlite3_open_v2(":memory:", &handle_, SQLITE_OPEN_READWRITE, nullptr) != SQLITE_OK) {
      return false;
    }
    // Read only: SQLite asks for a pointer that is not const and does not write to it.
    auto* data = const_cast<unsigned char*>(bytes.data());
    const auto size = static_cast<sqlite3_int64>(bytes.size());
    return sqlite3_deserialize(handle_, "main", data, size, size, SQLITE_DESERIALIZE_READONLY) ==
               SQLITE_OK &&
           harden();
  }

  // Rows of a query, each handed over; why they end early, empty where they do not. A query of
  // tables that a file lacks has no rows.
  std::string rows(const char* query, const std::function<void(sqlite3_stmt*)>& row) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(handle_, query, -1, &statement, nullptr) != SQLITE_OK) {
      const std::string why = sqlite3_errmsg(handle_);
      const bool lacks = why.find("no such") == 0;
      return lacks ? std::string() : why;
    }
    int code = sqlite3_step(statement);
    for (; code == SQLITE_ROW; code = sqlite3_step(statement)) row(statement);
    const std::string why = code == SQLITE_DONE ? "" : sqlite3_errmsg(handle_);
    sqlite3_finalize(statement);
    return why;
  }

 private:
  // The file is not trusted: its views and defaults run no functions.
  bool harden() {
    return sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr) == SQLITE_OK &&
           sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr) == SQLITE_OK;
  }

  sqlite3* handle_ = nullptr;
};

double microseconds(sqlite3_stmt* s, int column) {
  return static_cast<double>(sqlite3_column_int64(s, column)) * 1e-3;
}

std::string text_of(sqlite3_stmt* s, int column) {
  const unsigned char* text = sqlite3_column_text(s, column);
  const auto size = static_cast<std::size_t>(std::max(sqlite3_column_bytes(s, column), 0));
  return text == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(text), size);
}

class NsysReader {
 public:
  NsysReader(Database& db, std::string file) : db_(db), file_(std::move(file)) {}

  Result<std::vector<DeviceTrace>> read() {
    query(
        "SELECT start, end, deviceId, streamId, demangledName, rowid FROM "
        "CUPTI_ACTIVITY_KIND_KERNEL ORDER BY rowid",
        [&](sqlite3_stmt* s) { add_kernel(s); });
    query("SELECT start, end, deviceId, streamId, copyKind FROM CUPTI_ACTIVITY_KIND_MEMCPY",
          [&](sqlite3_stmt* s) { add_copy(s, "Memcpy"); });
    query("SELECT start, end, deviceId, streamId, 0 FROM CUPTI_ACTIVITY_KIND_MEMSET",
          [&](sqlite3_stmt* s) { add_copy(s, "Memset"); });
    if (devices_.empty()) {
      return error_at({file_},
                      problem_.empty() ? "no kernel of a device is in this database"
                                       : "cannot be read: " + problem_,
                      "'nsys profile -t cuda,nvtx' records them, 'nsys export --type sqlite' "
                      "writes them");
    }
    name_kernels();
    // Training codes mark steps by NVTX ranges: of an iteration, or PyTorch's profiler's.
    query(
        "SELECT e.start, e.end, coalesce(e.text, s.value) FROM NVTX_EVENTS e LEFT JOIN StringIds "
        "s ON s.id = e.textId WHERE e.end IS NOT NULL",
        [&](sqlite3_stmt* s) { add_range(s); });
    read_launches();
    query(
        "SELECT r.start, r.end, s.value FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON "
        "s.id = r.nameId WHERE s.value LIKE 'cudaMalloc%' OR s.value LIKE 'cudaFree%'",
        [&](sqlite3_stmt* s) { add_call(s); });
    return traces();
  }

 private:
  void query(const char* text, const std::function<void(sqlite3_stmt*)>& row) {
    const std::string why = db_.rows(text, row);
    if (problem_.empty()) problem_ = why;
  }

  DeviceTrace* device(sqlite3_stmt* s) {
    const std::int64_t id = sqlite3_column_int64(s, 2);
    if (devices_.size() >= kMostDevices && !devices_.contains(id)) return nullptr;
    return &devices_[id];
  }

  static DeviceOp operation(sqlite3_stmt* s) {
    DeviceOp op;
    op.start = microseconds(s, 0);
    op.duration = std::max(microseconds(s, 1) - op.start, 0.0);
    op.stream = static_cast<std::int32_t>(sqlite3_column_int64(s, 3));
    return op;
  }

  // Kernels carry the place of their name until the table of names is read.
  void add_kernel(sqlite3_stmt* s) {
    DeviceTrace* trace = device(s);
    if (trace == nullptr) return;
    const auto [at, added] = name_ids_.try_emplace(sqlite3_column_int64(s, 4),
                                                   static_cast<std::uint32_t>(name_ids_.size()));
    kernels_.push_back({sqlite3_column_int64(s, 5), sqlite3_column_int64(s, 2), trace->ops.size()});
    trace->ops.push_back(operation(s));
    trace->ops.back().name = at->second;
  }

  // Who launched each kernel, and inside of which operator of PyTorch. Correlations count by
  // process: identifiers of threads have that of their process in the upper bits.
  void read_launches() {
    query(
        "SELECT e.globalTid, e.start, e.end, coalesce(e.text, s.value) FROM NVTX_EVENTS e LEFT "
        "JOIN StringIds s ON s.id = e.textId WHERE e.end IS NOT NULL",
        [&](sqlite3_stmt* s) {
          ranges_.add(sqlite3_column_int64(s, 0), microseconds(s, 1), microseconds(s, 2),
                      text_of(s, 3));
        });
    ranges_.sort();
    query(
        "SELECT k.rowid, r.globalTid, r.start FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN "
        "CUPTI_ACTIVITY_KIND_KERNEL k ON k.correlationId = r.correlationId AND k.globalPid = "
        "r.globalTid - r.globalTid % 16777216",
        [&](sqlite3_stmt* s) { add_launch(s); });
  }

  void add_launch(sqlite3_stmt* s) {
    const std::int64_t row = sqlite3_column_int64(s, 0), thread = sqlite3_column_int64(s, 1);
    const auto kernel =
        std::lower_bound(kernels_.begin(), kernels_.end(), row,
                         [](const Kernel& k, std::int64_t id) { return k.row < id; });
    if (kernel == kernels_.end() || kernel->row != row) return;
    DeviceTrace& trace = devices_[kernel->device];
    DeviceOp& op = trace.ops[kernel->at];
    if (const Direction d = ranges_.direction(thread); d != Direction::kUnknown) op.direction = d;
    if (trace.names[op.name].cls != OpClass::kProduct) return;
    const ProductShape shape = ranges_.product(thread, microseconds(s, 2));
    if (shape.m == 0) return;
    const auto known = std::find(trace.shapes.begin(), trace.shapes.end(), shape);
    op.shape = static_cast<std::uint32_t>(known - trace.shapes.begin());
    constexpr std::size_t kMostShapes = 4000;
    if (known != trace.shapes.end()) return;
    if (trace.shapes.size() >= kMostShapes) {
      op.shape = 0;
    } else {
      trace.shapes.push_back(shape);
    }
  }

  void add_copy(sqlite3_stmt* s, const char* what) {
    DeviceTrace* trace = device(s);
    if (trace == nullptr) return;
    copies_.push_back({sqlite3_column_int64(s, 2), trace->ops.size(), what});
    trace->ops.push_back(operation(s));
  }

  void name_kernels() {
    std::vector<OpName> names(name_ids_.size());
    query("SELECT id, value FROM StringIds", [&](sqlite3_stmt* s) {
      const auto at = name_ids_.find(sqlite3_column_int64(s, 0));
      if (at != name_ids_.end()) names[at->second] = classified(text_of(s, 1));
    });
    const auto memcpy_name = static_cast<std::uint32_t>(names.size());
    names.push_back(classified("Memcpy"));
    names.push_back(classified("Memset"));
    for (const Copy& copy : copies_) {
      devices_[copy.device].ops[copy.at].name =
          memcpy_name + (std::string_view(copy.what) == "Memset" ? 1 : 0);
    }
    for (auto& [id, trace] : devices_) {
      trace.names = names;
      for (DeviceOp& op : trace.ops) {
        op.direction = names[op.name].direction;
        op.comm = names[op.name].comm;
      }
    }
  }

  void add_range(sqlite3_stmt* s) {
    const std::string text = text_of(s, 2);
    const TimeSpan span{microseconds(s, 0), microseconds(s, 1)};
    const bool step = text.starts_with("iteration") || text.starts_with("ProfilerStep#") ||
                      text.starts_with("train_step") || text.starts_with("step ");
    if (step) steps_.push_back(span);
    if (text.starts_with("enumerate(DataLoader)")) loading_.push_back(span);
  }

  void add_call(sqlite3_stmt* s) {
    const std::string name = text_of(s, 2);
    if (name.find("Async") != std::string::npos) return;  // of a pool: no wait for the device
    ++allocations_;
    allocation_time_ += std::max(microseconds(s, 1) - microseconds(s, 0), 0.0);
  }

  std::vector<DeviceTrace> traces() {
    double base = 0;
    bool any = false;
    for (const auto& [id, trace] : devices_) {
      for (const DeviceOp& op : trace.ops) {
        base = any ? std::min(base, op.start) : op.start;
        any = true;
      }
    }
    const auto moved = [&](std::vector<TimeSpan> spans) {
      for (TimeSpan& span : spans) span.start -= base, span.end -= base;
      return spans;
    };
    std::vector<DeviceTrace> all;
    for (auto& [id, trace] : devices_) {
      trace.file = file_;
      trace.rank = devices_.size() > 1 ? id : rank_of_name(file_);
      for (DeviceOp& op : trace.ops) op.start -= base;
      std::stable_sort(trace.ops.begin(), trace.ops.end(),
                       [](const DeviceOp& a, const DeviceOp& b) { return a.start < b.start; });
      trace.steps = moved(steps_);
      trace.data_loading = moved(loading_);
      trace.allocations = allocations_;
      trace.allocation_time = allocation_time_;
      if (devices_.size() > 1) {
        trace.notes.emplace_back("the numbers of its devices are taken as ranks");
      }
      if (!problem_.empty()) {
        trace.notes.push_back("the database is damaged (" + problem_ + "): what it holds is used");
      }
      all.push_back(std::move(trace));
    }
    return all;
  }

  struct Kernel {
    std::int64_t row = 0;  // of the table
    std::int64_t device = 0;
    std::size_t at = 0;
  };
  struct Copy {
    std::int64_t device = 0;
    std::size_t at = 0;
    const char* what = "";
  };

  Database& db_;
  std::string file_, problem_;
  std::map<std::int64_t, DeviceTrace> devices_;
  std::unordered_map<std::int64_t, std::uint32_t> name_ids_;
  std::vector<Copy> copies_;
  std::vector<Kernel> kernels_;  // by row
  LaunchRanges ranges_;
  std::vector<TimeSpan> steps_, loading_;
  std::int64_t allocations_ = 0;
  double allocation_time_ = 0;
};

}  // namespace

Result<std::vector<DeviceTrace>> read_nsys(const std::string& path) {
  Database db;
  if (!db.open(path)) return error_at({path}, "cannot be opened as a database");
  return NsysReader(db, path).read();
}

Result<std::vector<DeviceTrace>> read_nsys_bytes(std::span<const std::uint8_t> bytes,
                                                 const std::string& file) {
  Database db;
  if (bytes.empty() || !db.open(bytes)) return error_at({file}, "cannot be opened as a database");
  return NsysReader(db, file).read();
}

#endif

}  // namespace meshplan
