#include "study/reshard.hpp"

#include "base/check.hpp"
#include "frameworks/preset.hpp"

namespace meshplan {
namespace {

void add_if(bool differs, std::string key, std::vector<std::string>& keys) {
  if (differs) keys.push_back(std::move(key));
}

// Ranks over which optimizer states are cut, and how.
bool same_shards(const Strategy& a, const Strategy& b) {
  if (a.zero == 0 && b.zero == 0) return true;
  return shard_group(a) == shard_group(b) && a.zero == b.zero && expert_dp(a) == expert_dp(b);
}

}  // namespace

Reshard reshard(const Strategy& from, const Strategy& to) {
  PLAN_CHECK(from.framework == to.framework);
  Reshard result;
  add_if(from.tp != to.tp, "tp", result.keys);
  add_if(from.pp != to.pp, "pp", result.keys);
  add_if(from.vp != to.vp, "vp", result.keys);
  add_if(from.pp == to.pp && from.stage_layers != to.stage_layers, "stage_layers", result.keys);
  add_if(from.pp == to.pp && from.vp == to.vp && from.chunk_layers != to.chunk_layers,
         "chunk_layers", result.keys);
  add_if(from.ep != to.ep, "ep", result.keys);
  add_if(from.etp != to.etp, "etp", result.keys);
  const bool model = !result.keys.empty();
  if (!same_shards(from, to)) {
    add_if(from.zero != to.zero, "zero", result.keys);
    add_if(shard_group(from) != shard_group(to) || expert_dp(from) != expert_dp(to), "dp",
           result.keys);
  }
  if (result.keys.empty()) return result;
  const Preset& preset = preset_of(from);
  const ReshardRule& rule = model ? preset.model : preset.shards;
  result.kind = rule.kind;
  result.how = rule.how;
  result.source = rule.source;
  return result;
}

}  // namespace meshplan
