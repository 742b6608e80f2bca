#include "model/context.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "model/attention_residuals.hpp"
#include "model/packing.hpp"

namespace meshplan {

std::int64_t padded_vocab(const ModelSpec& m, const Strategy& s) {
  const std::int64_t unit = 128 * s.tp;
  return ceil_div(m.vocab_size, unit) * unit;
}

const GroupShape& BlockContext::group(Group g) const {
  constexpr std::array kKept{Group::kTp, Group::kCp, Group::kEp, Group::kEtp, Group::kEtpEp};
  const auto at = std::find(kKept.begin(), kKept.end(), g);
  PLAN_CHECK(at != kKept.end());
  std::optional<GroupShape>& known = groups[static_cast<std::size_t>(at - kKept.begin())];
  if (!known) known = group_shape(strategy, cluster, g);
  return *known;
}

namespace {

LocalShape shape_of(const ModelSpec& m, const Strategy& s, std::int64_t whole,
                    std::int64_t document) {
  LocalShape x;
  x.whole = whole;
  x.document = document;
  x.sequence = ceil_div(whole, s.cp);
  x.tokens = x.sequence * s.micro_batch;
  x.norm_tokens = s.sequence_parallel ? ceil_div(x.tokens, s.tp) : x.tokens;
  x.hidden = m.hidden_size;
  x.residual = m.hidden_size * m.mhc_num_residual_streams;
  if (has_attention_residuals(m)) {  // the sum and the blocks' states go on together
    x.residual = std::llround(mixed_states(m) * real(m.hidden_size));
  }
  x.vocab = padded_vocab(m, s) / s.tp;
  x.bytes = storage_size(s.precision);
  return x;
}

}  // namespace

LocalShape local_shape(const ModelSpec& m, const Strategy& s) {
  if (!m.lengths || s.packing != Packing::kNone) return timed_shape(m, s);
  const auto most = static_cast<std::int64_t>(std::ceil(longest(*m.lengths)));
  const std::int64_t whole = std::min(s.seq_len, most);
  return shape_of(m, s, whole, whole);
}

LocalShape timed_shape(const ModelSpec& m, const Strategy& s) {
  if (!m.lengths || s.packing == Packing::kPad) return shape_of(m, s, s.seq_len, s.seq_len);
  const RowStatistics row = row_statistics(*m.lengths, s.packing, s.seq_len, s.micro_batch);
  const std::int64_t whole = s.packing == Packing::kNone
                                 ? std::max<std::int64_t>(1, std::llround(row.computed))
                                 : s.seq_len;
  return shape_of(m, s, whole, std::max<std::int64_t>(1, std::llround(row.attended())));
}

Dtype activation_dtype(Precision p) {
  if (storage_size(p) == 4) return Dtype::kFp32;
  return p == Precision::kFp16 ? Dtype::kFp16 : Dtype::kBf16;
}

}  // namespace meshplan
