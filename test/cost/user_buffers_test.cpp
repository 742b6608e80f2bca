// Buffers of tensor-parallel communication that runs beside matrix products.
#include "cost/user_buffers.hpp"

#include <algorithm>
#include <cstdint>

#include "cost/ledger.hpp"
#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "frameworks/preset.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

namespace {

Strategy overlapped(std::int64_t tp, const ModelSpec& m, const ClusterSpec& c) {
  Strategy s = plain_strategy(tp, 1, 1);
  s.runtime = framework_preset(Framework::kMegatron).runtime;
  s.sequence_parallel = s.overlap.tp = true;
  return complete(s, m, c);
}

Bytes buffers_of(const ModelSpec& m, const Strategy& s) {
  return user_buffer_bytes(local_shape(m, s), s);
}

}  // namespace

TEST_CASE("[F-UB-1] every overlapped product has a buffer of all the group's tokens") {
  const ModelSpec m = plain_gpt(4);
  const ClusterSpec c = plain_cluster(8);
  Strategy s = overlapped(4, m, c);
  s.seq_len = 16384, s.micro_batch = 2, s.cp = 2;
  const std::int64_t elements = 16384 * 2 / 2 * m.hidden_size;
  REQUIRE(elements % (2 * kMiB) == 0);  // whole pages
  constexpr std::int64_t kFlags = 4 * kMiB;
  CHECK(buffers_of(m, s) == Bytes{12 * 2 * elements + kFlags});
  s.precision = Precision::kNvfp4;  // as bf16
  CHECK(buffers_of(m, s) == Bytes{12 * 2 * elements + kFlags});
  s.precision = Precision::kFp8;
  CHECK(buffers_of(m, s) == Bytes{(8 + 4 * 2) * elements + kFlags});
  s.runtime.num_layers_at_end_in_bf16 = 1;
  CHECK(buffers_of(m, s) == Bytes{(8 + 4 * 2 + 12 * 2) * elements + kFlags});
  s.runtime.num_layers_at_end_in_bf16 = 0;
  s.seq_len = 2;  // a page each
  CHECK(buffers_of(m, s) == Bytes{12 * 2 * kMiB + kFlags});
}

TEST_CASE("[F-UB-1] nothing without overlap, sequence parallelism, other ranks or the engine") {
  const ModelSpec m = plain_gpt(4);
  const ClusterSpec c = plain_cluster(8);
  const Strategy on = overlapped(4, m, c);
  CHECK(buffers_of(m, on) > Bytes{});
  Strategy s = on;
  s.overlap.tp = false;
  CHECK(buffers_of(m, s) == Bytes{});
  s = on, s.sequence_parallel = false;
  CHECK(buffers_of(m, s) == Bytes{});
  s = on, s.tp = 1;
  CHECK(buffers_of(m, s) == Bytes{});
  s = on, s.runtime.transformer_engine = false;
  CHECK(buffers_of(m, s) == Bytes{});
}

TEST_CASE("[F-UB-1] the device holds the buffers, the allocator the workspace") {
  const ModelSpec m = plain_gpt(4);
  ClusterSpec c = plain_cluster(4);
  c.device.architecture = Architecture::kHopper;
  const Strategy on = overlapped(4, m, c);
  Strategy off = on;
  off.overlap.tp = false;
  const StageCost with = cost_of(m, c, on).stages[0], without = cost_of(m, c, off).stages[0];
  const Bytes buffers = buffers_of(m, on), workspace{3 * 32 * kMiB};
  CHECK(with.memory.communicators == without.memory.communicators + buffers);
  CHECK(with.memory.persistent == without.memory.persistent + workspace);
  // What layers gather is in them.
  const LocalShape l = local_shape(m, on);
  const Bytes gathered = Bytes{l.bytes} * l.tokens * l.hidden;
  CHECK(with.memory.allocated() == without.memory.allocated() + workspace - gathered);
  const auto entry =
      std::find_if(with.ledger.entries.begin(), with.ledger.entries.end(),
                   [](const LedgerEntry& e) { return e.lifetime == Lifetime::kOutside; });
  CHECK(with.memory.reserved - with.memory.fragmentation ==
        without.memory.reserved - without.memory.fragmentation + buffers);
  REQUIRE(entry != with.ledger.entries.end());
  CHECK(entry->bytes == buffers);
  CHECK(entry->formula == "F-UB-1");
}
