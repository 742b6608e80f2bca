// Any bytes as what a process says of its memory: pickles, statistics, messages.
#include "compare/memory_measure.hpp"
#include "fuzz/fuzz.hpp"

MESHPLAN_FUZZ_TARGET(memory) {
  using namespace meshplan;
  const Result<MemoryMeasure> m = parse_memory(fuzz::as_text(data, size), "memory");
  fuzz::require_value_or_errors(m);
  if (!m.ok()) return 0;
  fuzz::require(m->allocated.count() >= 0 && m->reserved.count() >= 0 && m->retries >= 0);
  if (m->parts) {
    fuzz::require(m->parts->size() == kMemoryParts);
    for (const Bytes& part : *m->parts) fuzz::require(part.count() >= 0);
  }
  return 0;
}
