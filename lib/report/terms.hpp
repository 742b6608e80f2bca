#pragma once
// The named terms of a plan's time and memory, once, for tables and for JSON.
#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.hpp"
#include "cost/plan_cost.hpp"

namespace meshplan {

struct TimeTermRow {
  Seconds TimeTerms::*term;
  std::string_view key;    // in JSON; names its unit
  std::string_view label;  // for people
};

// In the order in which total() adds them up.
inline constexpr std::array kTimeTerms{
    TimeTermRow{&TimeTerms::compute, "compute_s", "compute"},
    TimeTermRow{&TimeTerms::recompute, "recompute_s", "recomputation"},
    TimeTermRow{&TimeTerms::tp_comm_exposed, "tp_comm_exposed_s", "tensor-parallel comm."},
    TimeTermRow{&TimeTerms::cp_comm_exposed, "cp_comm_exposed_s", "context-parallel comm."},
    TimeTermRow{&TimeTerms::ep_comm_exposed, "ep_comm_exposed_s", "expert-parallel comm."},
    TimeTermRow{&TimeTerms::pp_comm_exposed, "pp_comm_exposed_s", "pipeline comm."},
    TimeTermRow{&TimeTerms::pp_bubble, "pp_bubble_s", "pipeline bubble"},
    TimeTermRow{&TimeTerms::dp_comm_exposed, "dp_comm_exposed_s", "data-parallel comm."},
    TimeTermRow{&TimeTerms::optimizer, "optimizer_s", "optimizer step"},
    TimeTermRow{&TimeTerms::uneven, "uneven_documents_s", "uneven documents"},
    TimeTermRow{&TimeTerms::other, "other_s", "launch and offload"}};

struct MemoryTermRow {
  Bytes MemoryBreakdown::*term;
  std::string_view key;
  std::string_view label;  // column header, short
};

inline constexpr std::array kMemoryTerms{
    MemoryTermRow{&MemoryBreakdown::weights, "weights_bytes", "weight"},
    MemoryTermRow{&MemoryBreakdown::gradients, "gradients_bytes", "grad"},
    MemoryTermRow{&MemoryBreakdown::optimizer, "optimizer_bytes", "optim"},
    MemoryTermRow{&MemoryBreakdown::activations, "activations_bytes", "activ"},
    MemoryTermRow{&MemoryBreakdown::buffers, "buffers_bytes", "buffer"},
    MemoryTermRow{&MemoryBreakdown::persistent, "persistent_buffers_bytes", "kept"},
    MemoryTermRow{&MemoryBreakdown::communicators, "communicators_bytes", "nccl"},
    MemoryTermRow{&MemoryBreakdown::context, "context_bytes", "ctx"},
    MemoryTermRow{&MemoryBreakdown::fragmentation, "fragmentation_bytes", "frag"},
    MemoryTermRow{&MemoryBreakdown::reserved, "reserved_bytes", "resv"},
    MemoryTermRow{&MemoryBreakdown::peak, "peak_bytes", "peak"},
    MemoryTermRow{&MemoryBreakdown::capacity, "capacity_bytes", "limit"}};

// The row of a term.
template <class Rows, class Term>
[[nodiscard]] const auto& row_of(const Rows& rows, Term term) {
  const auto at =
      std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.term == term; });
  PLAN_CHECK(at != rows.end());
  return *at;
}

}  // namespace meshplan
