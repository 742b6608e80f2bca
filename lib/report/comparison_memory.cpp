#include <algorithm>

#include "base/text.hpp"
#include "report/comparison_parts.hpp"

namespace meshplan {
namespace {

std::string difference(Bytes measured, Bytes predicted) {
  return measured >= predicted ? "+" + human_bytes(measured - predicted)
                               : "-" + human_bytes(predicted - measured);
}

// Which entries of the ledger a part of the breakdown consists of.
bool is_of(const LedgerEntry& e, MemoryPart part) {
  const std::string_view n = e.name;
  const auto says = [&](std::string_view word) { return n.find(word) != std::string_view::npos; };
  switch (part) {
    case MemoryPart::kWeights:
      return says("weight") && !says("gradient") && !says("master");
    case MemoryPart::kGradients:
      return says("gradient");
    case MemoryPart::kOptimizer:
      return says("moment") || says("master") || says("optimizer");
    case MemoryPart::kActivations:
      return e.lifetime == Lifetime::kSaved;
    case MemoryPart::kBuffers:
    case MemoryPart::kUnknown:
      return false;
  }
  return false;
}

// The predicted entries of a part, largest first.
std::string entries_text(const Ledger& ledger, MemoryPart part) {
  std::vector<LedgerEntry> entries;
  for (const LedgerEntry& e : ledger.entries) {
    if (is_of(e, part)) entries.push_back(e);
  }
  std::sort(entries.begin(), entries.end(),
            [](const LedgerEntry& a, const LedgerEntry& b) { return a.bytes > b.bytes; });
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(entries.size(), 6); ++i) {
    text += (text.empty() ? "" : ", ") + std::string(entries[i].name) + ' ' +
            human_bytes(entries[i].bytes);
  }
  return text;
}

std::string parts_text(const MemoryMeasure& m, const PlanCost& plan, const TextOptions& options) {
  Table table({{"at the fullest moment", Align::kLeft},
               {"measured"},
               {"predicted"},
               {"difference"},
               {"predicted entries", Align::kLeft, true}});
  for (const auto& row : NameTable<MemoryPart>::rows) {
    const Bytes measured = (*m.parts)[static_cast<std::size_t>(row.value)];
    const Bytes predicted = predicted_part(plan.memory(), row.value);
    if (measured.count() == 0 && predicted.count() == 0) continue;
    table.add_row({std::string(row.name), human_bytes(measured),
                   row.value == MemoryPart::kUnknown ? "-" : human_bytes(predicted),
                   difference(measured, predicted),
                   entries_text(plan.stages[plan.fullest_stage].ledger, row.value)});
  }
  return table.text(options);
}

std::string failed_text(const MemoryMeasure& m, const PlanCost& plan, const TextOptions& options) {
  const OutOfMemory& e = *m.failed;
  const MemoryBreakdown& memory = plan.memory();
  const Bytes needed = e.allocated + e.wanted;
  std::string text =
      human_bytes(e.wanted) + " were asked for, " + human_bytes(e.free) + " were free";
  if (e.capacity.count() > 0) text += " of " + human_bytes(e.capacity);
  text += "; with them " + human_bytes(needed) + " would be allocated, " +
          human_bytes(memory.allocated()) + " are predicted at most.";
  if (e.unallocated > e.wanted) {
    text += " The allocator held " + human_bytes(e.unallocated) +
            " that it could not use: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True joins such "
            "pieces.";
  } else if (e.wanted > e.free) {
    text += " At least " + human_bytes(e.wanted - e.free) + " more were needed.";
  }
  return paragraph("Out of memory: ", text, options);
}

}  // namespace

std::string memory_text(const MemoryMeasure& m, const PlanCost& plan, const TextOptions& options) {
  const MemoryBreakdown& memory = plan.memory();
  const Bytes allocated = memory.allocated(), reserved = allocated + memory.fragmentation;
  Table table({{"memory at most", Align::kLeft}, {"measured"}, {"predicted"}, {"difference"}});
  if (m.allocated.count() > 0) {
    table.add_row({"allocated", human_bytes(m.allocated), human_bytes(allocated),
                   difference(m.allocated, allocated)});
  }
  if (m.reserved.count() > 0) {
    table.add_row({"reserved", human_bytes(m.reserved), human_bytes(reserved),
                   difference(m.reserved, reserved)});
  }
  std::string text = table.empty() ? "" : table.text(options);
  if (m.parts) text += "\n" + parts_text(m, plan, options);
  text += "\n" + paragraph("Memory: ",
                           m.file + ", " + m.kind + ", beside the ledger of pipeline rank " +
                               std::to_string(plan.fullest_stage) + ".",
                           options);
  if (m.retries > 0) {
    text += paragraph("Note: ",
                      "the allocator gave memory back " + with_thousands(m.retries) +
                          (m.retries == 1 ? " time" : " times") +
                          " to get more, for which the device waits.",
                      options);
  }
  if (m.failed) text += failed_text(m, plan, options);
  for (const std::string& note : m.notes) text += paragraph("Note: ", note, options);
  return text;
}

Json memory_measure_json(const MemoryMeasure& m, const PlanCost& plan) {
  const MemoryBreakdown& memory = plan.memory();
  Json json{{"file", m.file}, {"kind", m.kind}};
  if (m.allocated.count() > 0) json["allocated_bytes"] = m.allocated.count();
  json["predicted_allocated_bytes"] = memory.allocated().count();
  if (m.reserved.count() > 0) json["reserved_bytes"] = m.reserved.count();
  json.update({{"predicted_reserved_bytes", (memory.allocated() + memory.fragmentation).count()},
               {"retries", m.retries},
               {"out_of_memory_errors", m.out_of_memory_errors}});
  if (m.parts) {
    json["parts"] = Json::array();
    for (const auto& row : NameTable<MemoryPart>::rows) {
      json["parts"].push_back(
          {{"part", row.name},
           {"measured_bytes", (*m.parts)[static_cast<std::size_t>(row.value)].count()},
           {"predicted_bytes", predicted_part(memory, row.value).count()}});
    }
  }
  if (m.failed) {
    json["out_of_memory"] = {{"wanted_bytes", m.failed->wanted.count()},
                             {"free_bytes", m.failed->free.count()},
                             {"capacity_bytes", m.failed->capacity.count()},
                             {"allocated_bytes", m.failed->allocated.count()},
                             {"unallocated_bytes", m.failed->unallocated.count()}};
  }
  json["notes"] = m.notes;
  return json;
}

}  // namespace meshplan
