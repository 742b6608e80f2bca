#include "cost/deferral.hpp"

#include <algorithm>

#include "schedule/traits.hpp"

namespace meshplan {

std::int64_t deferred_microbatches(const Strategy& s) {
  const Runtime& k = s.runtime;
  if (!k.defer_embedding_wgrad_compute || s.pp == 1 || is_frozen(s)) return 0;
  if (traits_of(s.schedule).splits_backward) return 0;
  const std::int64_t all = num_microbatches(s);
  return k.wgrad_deferral_limit > 0 ? std::min(k.wgrad_deferral_limit, all) : all;
}

DeferredBytes deferred_bytes(const Strategy& s, const LocalShape& l) {
  const std::int64_t waiting = deferred_microbatches(s);
  if (waiting == 0) return {};
  const Bytes each = Bytes{l.bytes} * (l.tokens * l.vocab + l.norm_tokens * l.hidden);
  return {each * std::min(waiting, num_microbatches(s) - 1), each * waiting};
}

}  // namespace meshplan
