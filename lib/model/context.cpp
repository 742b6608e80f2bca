#include "model/context.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace meshplan {

std::int64_t padded_vocab(const ModelSpec& m, const Strategy& s) {
  const std::int64_t unit = 128 * s.tp;
  return ceil_div(m.vocab_size, unit) * unit;
}

const GroupShape& BlockContext::group(Group g) const {
  constexpr std::array kKept{Group::kTp, Group::kCp, Group::kEp, Group::kEtp};
  const auto at = std::find(kKept.begin(), kKept.end(), g);
  PLAN_CHECK(at != kKept.end());
  std::optional<GroupShape>& known = groups[static_cast<std::size_t>(at - kKept.begin())];
  if (!known) known = group_shape(strategy, cluster, g);
  return *known;
}

LocalShape local_shape(const ModelSpec& m, const Strategy& s) {
  LocalShape x;
  x.sequence = ceil_div(s.seq_len, s.cp);
  x.tokens = x.sequence * s.micro_batch;
  x.norm_tokens = s.sequence_parallel ? ceil_div(x.tokens, s.tp) : x.tokens;
  x.hidden = m.hidden_size;
  x.vocab = padded_vocab(m, s) / s.tp;
  x.bytes = storage_size(s.precision);
  return x;
}

Dtype activation_dtype(Precision p) {
  if (storage_size(p) == 4) return Dtype::kFp32;
  return p == Precision::kFp16 ? Dtype::kFp16 : Dtype::kBf16;
}

}  // namespace meshplan
