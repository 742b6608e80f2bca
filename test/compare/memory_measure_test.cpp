#include "compare/memory_measure.hpp"

#include "compare/memory_snapshot.hpp"
#include "compare/pickle.hpp"
#include "support/catch.hpp"

namespace meshplan {
using Catch::Matchers::Contains;
namespace {

// Builds what Python's pickle.dumps(value, protocol=4) writes of plain data.
class Pickler {
 public:
  static std::string text(std::string_view t) {
    return std::string("X") + little(t.size(), 4) + std::string(t);
  }
  static std::string integer(std::int64_t n) {
    return std::string("\x8a\x08") + little(static_cast<std::uint64_t>(n), 8);
  }
  static std::string list(const std::vector<std::string>& items) {
    std::string all = "](";
    for (const std::string& item : items) all += item;
    return all + "e";
  }
  static std::string map(const std::vector<std::pair<std::string, std::string>>& entries) {
    std::string all = "}(";
    for (const auto& [key, value] : entries) all += text(key) + value;
    return all + "u";
  }
  static std::string whole(const std::string& value) { return "\x80\x04" + value + "."; }

 private:
  static std::string little(std::uint64_t value, int size) {
    std::string bytes;
    for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
    return bytes;
  }
};
using P = Pickler;

std::string frames(const char* file, const char* name) {
  return P::list(
      {P::map({{"filename", P::text(file)}, {"name", P::text(name)}, {"line", P::integer(1)}})});
}
std::string event(const char* action, std::int64_t address, std::int64_t size,
                  const std::string& at = P::list({})) {
  return P::map({{"action", P::text(action)},
                 {"addr", P::integer(address)},
                 {"size", P::integer(size)},
                 {"frames", at}});
}

// 100 MiB of weights stay; 30 MiB of activations and 20 MiB of gathers come and go; 40 MiB of the
// optimizer's states come at the end, when only the weights are left.
std::string snapshot(bool history) {
  const std::int64_t mib = kMiB;
  const std::string forward = frames("megatron/core/transformer/mlp.py", "forward");
  const std::string gather =
      frames("torch/distributed/distributed_c10d.py", "all_gather_into_tensor");
  const std::string adam = frames("torch/optim/adam.py", "_init_group");
  const auto block = [](std::int64_t address, std::int64_t size, const std::string& at) {
    return P::map({{"size", P::integer(size)},
                   {"address", P::integer(address)},
                   {"state", P::text("active_allocated")},
                   {"frames", at}});
  };
  std::vector<std::string> events;
  if (history) {
    events = {event("alloc", 1000, 30 * mib, forward), event("alloc", 2000, 20 * mib, gather),
              event("free_requested", 2000, 20 * mib), event("free_completed", 2000, 20 * mib),
              event("free_completed", 1000, 30 * mib), event("alloc", 3000, 40 * mib, adam)};
  }
  return P::whole(P::map(
      {{"segments",
        P::list({P::map(
            {{"device", P::integer(0)},
             {"address", P::integer(1)},
             {"total_size", P::integer(200 * mib)},
             {"blocks", P::list({block(1, 100 * mib, frames("megatron/training.py", "get_model")),
                                 block(3000, 40 * mib, adam)})}})})},
       {"device_traces", P::list({P::list(events)})}}));
}

Bytes part(const MemoryMeasure& m, MemoryPart p) { return (*m.parts)[static_cast<std::size_t>(p)]; }

TEST_CASE("the fullest moment of a snapshot, by what allocated it") {
  const Result<MemoryMeasure> m = parse_memory(snapshot(true), "snap.pickle");
  if (!m.ok()) FAIL(to_text(m.errors()));
  CHECK(m->kind == "snapshot");
  CHECK(m->allocated == Bytes{150 * kMiB});
  CHECK(m->reserved == Bytes{200 * kMiB});
  CHECK(part(*m, MemoryPart::kWeights) == Bytes{100 * kMiB});
  CHECK(part(*m, MemoryPart::kActivations) == Bytes{30 * kMiB});
  CHECK(part(*m, MemoryPart::kBuffers) == Bytes{20 * kMiB});
  CHECK(part(*m, MemoryPart::kOptimizer) == Bytes{});
  CHECK(m->notes.empty());
}

TEST_CASE("a snapshot without history has its end") {
  const Result<MemoryMeasure> m = parse_memory(snapshot(false), "snap.pickle");
  REQUIRE(m.ok());
  CHECK(m->allocated == Bytes{140 * kMiB});
  CHECK(part(*m, MemoryPart::kOptimizer) == Bytes{40 * kMiB});
  REQUIRE(m->notes.size() == 1);
}

TEST_CASE("a snapshot that breaks off gives what it holds, and says so") {
  const std::string whole = snapshot(true);
  std::size_t history = whole.find("device_traces"), told = 0, less = 0;
  for (std::size_t size = 1; size + 1 < whole.size(); ++size) {
    CAPTURE(size);
    const Result<MemoryMeasure> m = parse_memory(whole.substr(0, size), "snap.pickle");
    if (!m) continue;
    REQUIRE(m->notes.size() == 1);
    CHECK_THAT(m->notes[0], Contains("breaks off"));
    if (size > history + 20) {
      CHECK(m->allocated == Bytes{140 * kMiB});
      ++told;
    } else {
      CHECK(m->allocated <= Bytes{140 * kMiB});
      ++less;
    }
  }
  CHECK(told > 100);
  CHECK(less > 10);
}

TEST_CASE("a pickle that would run code, or says nothing of memory, is refused") {
  for (const std::string& bytes :
       {P::whole("cos\nsystem\n(S'true'\ntR"), std::string("\x80\x04") + "\x93.", P::whole("e"),
        P::whole("h\x05"), std::string("\x80\x04}(X\xff\xff\xff\xff"), P::whole(""),
        snapshot(true).substr(0, 12), P::whole(P::list({})), P::whole("}(K\x01u")}) {
    const Result<MemoryMeasure> m = parse_memory(bytes, "snap.pickle");
    CHECK_FALSE(m.ok());
  }
  const Result<PickleTree> code = parse_pickle(P::whole("cos\nsystem\n"), "x");
  CHECK(to_text(code.errors()).find("is never run") != std::string::npos);
}

TEST_CASE("messages of out-of-memory errors, before and since PyTorch 2.1") {
  const auto now = find_out_of_memory(
      "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.15 GiB of "
      "which 1.25 GiB is free. Including non-PyTorch memory, this process has 77.93 GiB memory in "
      "use. Of the allocated memory 70.50 GiB is allocated by PyTorch, and 512.00 MiB is reserved "
      "by "
      "PyTorch but unallocated.");
  REQUIRE(now.has_value());
  CHECK(now->wanted == Bytes{5 * kGiB / 2});
  CHECK(now->free == Bytes{5 * kGiB / 4});
  CHECK(now->allocated == Bytes{141 * kGiB / 2});
  CHECK(now->unallocated == Bytes{kGiB / 2});
  const auto then = find_out_of_memory(
      "RuntimeError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 0; 79.00 GiB total "
      "capacity; 77.00 GiB already allocated; 128.00 MiB free; 77.50 GiB reserved in total by "
      "PyTorch)");
  REQUIRE(then.has_value());
  CHECK(then->wanted == Bytes{kGiB / 2});
  CHECK(then->capacity == Bytes{79 * kGiB});
  CHECK(then->allocated == Bytes{77 * kGiB});
  CHECK(then->unallocated == Bytes{kGiB / 2});
  CHECK_FALSE(find_out_of_memory("all is well").has_value());
}

TEST_CASE("statistics as JSON and as Python prints them, the largest of several ranks") {
  const Result<MemoryMeasure> m = parse_memory(
      "{'allocated_bytes.all.current': 5, 'allocated_bytes.all.peak': 1024, 'num_alloc_retries': "
      "2, "
      "'reserved_bytes.all.peak': 4096}\n{'allocated_bytes.all.peak': 2048}",
      "stats");
  REQUIRE(m.ok());
  CHECK(m->allocated == Bytes{2048});
  CHECK(m->reserved == Bytes{4096});
  CHECK(m->retries == 2);
  CHECK_FALSE(parse_memory("nothing of the kind", "x").ok());
}

}  // namespace
}  // namespace meshplan
