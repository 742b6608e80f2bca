#pragma once
// What every block's operations depend on: model, cluster, strategy, and one rank's share of a
// microbatch.
#include <array>
#include <cstdint>
#include <optional>

#include "layout/groups.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Sizes that all layers have in common. Elements unless said otherwise.
struct LocalShape {
  std::int64_t tokens = 0;       // per sequence-and-context share: whole / cp * micro_batch
  std::int64_t norm_tokens = 0;  // in norm and residual regions: / tp with sequence parallelism
  std::int64_t sequence = 0;     // whole / cp
  std::int64_t whole = 0;        // seq_len, or what a microbatch's rows are padded to
  // What attention sees: whole, or the length of documents that have as many pairs a token as those
  // of a row.
  std::int64_t document = 0;
  std::int64_t hidden = 0;
  std::int64_t residual = 0;  // per token, of what layers hand on: hidden, or several streams
  std::int64_t vocab = 0;     // padded vocabulary / tp
  int bytes = 2;              // of one stored activation element
};

// Of the largest microbatch there is, which memory must hold.
[[nodiscard]] LocalShape local_shape(const ModelSpec& m, const Strategy& s);
// Of the mean one, for times; another where microbatches are padded to their longest document
// alone.
[[nodiscard]] LocalShape timed_shape(const ModelSpec& m, const Strategy& s);

// Vocabulary as stored: padded to a multiple of 128 * tp (Megatron-LM tokenizer padding).
[[nodiscard]] std::int64_t padded_vocab(const ModelSpec& m, const Strategy& s);

struct BlockContext {
  const ModelSpec& model;
  const ClusterSpec& cluster;
  const Strategy& strategy;
  LocalShape shape;

  // The shape of a group that a block's collectives run in (kTp, kCp, kEp, kEtp, kEtpEp): worked
  // out the first time, since every collective asks. For one thread.
  [[nodiscard]] const GroupShape& group(Group g) const;
  mutable std::array<std::optional<GroupShape>, 5> groups{};
};

// Type of activations as collectives move them.
[[nodiscard]] Dtype activation_dtype(Precision p);

}  // namespace meshplan
