#pragma once
// One time per (algorithm, protocol): a latency and a rate for the operation's bytes. Which of them
// exist for an operation and a group is part of the answer.
#include <optional>

#include "comm/route.hpp"

namespace meshplan {

struct AlgorithmTime {
  Seconds latency;
  Seconds transfer;

  [[nodiscard]] Seconds total() const { return latency + transfer; }
};

// Rings: all-reduce, all-gather, reduce-scatter, broadcast.
[[nodiscard]] std::optional<AlgorithmTime> ring_time(const Route& r, Collective op, Bytes bytes,
                                                     Protocol p);
// Trees: all-reduce.
[[nodiscard]] std::optional<AlgorithmTime> tree_time(const Route& r, Bytes bytes, Protocol p);
// NVLink SHARP inside one NVSwitch domain: all-reduce, all-gather, reduce-scatter.
[[nodiscard]] std::optional<AlgorithmTime> nvls_time(const Route& r, Collective op, Bytes bytes);
// NVLink SHARP inside nodes and a tree between them: all-reduce.
[[nodiscard]] std::optional<AlgorithmTime> nvls_tree_time(const Route& r, Bytes bytes);
// Parallel aggregated trees: all-gather and reduce-scatter with one member per node.
[[nodiscard]] std::optional<AlgorithmTime> pat_time(const Route& r, Bytes bytes);
// Every pair of ranks exchanges its part directly: all-to-all.
[[nodiscard]] std::optional<AlgorithmTime> pairwise_time(const Route& r, Bytes bytes, Protocol p);
// As above, but parts for another node first gather on the member that shares the receiver's rail,
// so that each card sends one message per node (NCCL's PXN).
[[nodiscard]] std::optional<AlgorithmTime> hierarchical_time(const Route& r, Bytes bytes,
                                                             Protocol p);
// Every member sends to the next one (pipeline neighbours: a pair).
[[nodiscard]] std::optional<AlgorithmTime> send_recv_time(const Route& r, Bytes bytes, Protocol p);

// LL128 needs stores of 128 bytes to arrive whole: NVLink inside nodes, and cards that read device
// memory directly.
[[nodiscard]] bool has_protocol(const Route& r, Protocol p);

}  // namespace meshplan
