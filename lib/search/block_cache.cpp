#include "search/block_cache.hpp"

#include "cost/deferral.hpp"

namespace meshplan {

BlockCache::Key BlockCache::key_of(const Strategy& s, std::size_t base) {
  Key key{static_cast<std::int64_t>(base),
          s.tp,
          s.cp,
          s.cp > 1 ? static_cast<std::int64_t>(s.cp_kind) : 0,
          s.ep,
          s.etp,
          s.sequence_parallel ? 1 : 0,
          s.micro_batch,
          shapes_.id(s, Group::kTp),
          shapes_.id(s, Group::kCp)};
  if (model_.moe) {
    key[10] = shapes_.id(s, s.runtime.allgather_dispatcher ? Group::kEtpEp : Group::kEp);
    key[11] = shapes_.id(s, Group::kEtp);
  }
  if (s.zero >= 2) {
    key[12] = s.zero + (has_host_weights(s) ? 4 : 0);
    key[13] = shard_group(s);
    key[14] = shapes_.id(s, Group::kZeroShard);
    key[15] = shapes_.id(s, Group::kZeroReplica);
    key[16] = shapes_.id(s, Group::kExpertDp);
  }
  key[17] = pipeline_crosses_nodes(s, cluster_) ? 1 : 0;
  key[18] = s.recompute_modules.id();
  if (deferred_microbatches(s) > 0) key[19] = num_microbatches(s);
  if (s.recompute_modules.has(RecomputeModule::kMhc)) key[20] = s.pp * s.vp;  // a stage's layers
  return key;
}

// Everything that block costs depend on, shapes of groups by what decides them.
IntegerKey<12> BlockCache::few_keys(const Strategy& s, std::size_t base) {
  std::int64_t few = s.zero * 2 + (s.sequence_parallel ? 1 : 0);
  few = few * 2 + (has_host_weights(s) ? 1 : 0);
  few = few * 2 + (deferred_microbatches(s) > 0 ? 1 : 0);  // not with every schedule
  few = few * 4 + static_cast<std::int64_t>(s.cp_kind);
  if (s.recompute_modules.has(RecomputeModule::kMhc)) few = few * 4096 + s.vp;
  for (const Axis axis : s.order) few = few * 8 + static_cast<std::int64_t>(axis);
  return {static_cast<std::int64_t>(base),
          s.tp,
          s.pp,
          s.cp,
          s.dp,
          s.ep,
          s.etp,
          s.zero_group,
          s.micro_batch,
          static_cast<std::int64_t>(s.recompute_modules.id()),
          s.runtime.contended_launches > 0 ? 1 : 0,
          few};
}

// Most are asked for again and again: then the shapes of their groups need not be looked up.
const BlockCosts& BlockCache::costs(const Strategy& s, std::size_t base) {
  return *costs_of_all_.get(few_keys(s, base), [&] { return &costs_of_groups(s, base); });
}

BlockCosts BlockCache::sharded_costs(const Strategy& s, std::size_t base) {
  Strategy plain = s;
  plain.zero = 0;
  return with_sharded_traffic(costs(plain, base), model_, cluster_, s);
}

const BlockCosts& BlockCache::costs_of_groups(const Strategy& s, std::size_t base) {
  return costs_.get(key_of(s, base), [&] {
    BlockCosts made;
    if (s.zero >= 2) {
      made = sharded_costs(s, base);
    } else {
      made = block_costs(model_, cluster_, s);
    }
    for (BlockCost& block : made) {
      block.communication.clear();
      block.communication.shrink_to_fit();  // most of what a block's cost takes
    }
    return made;
  });
}

}  // namespace meshplan
