#include "study/maximise.hpp"

#include <algorithm>
#include <vector>

#include "space/lists.hpp"
#include "study/steps.hpp"

namespace meshplan {
namespace {

std::vector<std::int64_t> sequences(std::int64_t most) {
  constexpr std::int64_t kFine = 128, kCoarse = 1024, kLong = 8192;
  const std::int64_t unit = most < kLong ? kFine : kCoarse;
  std::vector<std::int64_t> values;
  for (std::int64_t n = unit; n < most; n += unit) values.push_back(n);
  values.push_back(most);
  return values;
}

}  // namespace

SearchRequest with_value(SearchRequest request, MaximisedKey key, std::int64_t value) {
  if (key == MaximisedKey::kSeqLen) {
    request.base.seq_len = value;
  } else {
    request.limits.push_back({"micro_batch", LimitOp::kEqual, {value}});
  }
  return request;
}

Result<Maximum> maximise(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request,
                         MaximisedKey key, const Progress& progress) {
  const std::vector<std::int64_t> values = key == MaximisedKey::kSeqLen
                                               ? sequences(request.base.seq_len)
                                               : divisors(request.base.global_batch);
  Maximum found;
  found.key = key;
  found.most = values.back(), found.least = values.front();
  std::optional<Diagnostics> wrong;
  const auto fits = [&](std::size_t i) {
    SearchRequest one = with_value(request, key, values[i]);
    one.top = 1;
    one.with_closest_miss = false;
    const Result<SearchResult> result = search(m, c, one, progress);
    ++found.searches;
    if (!result) {
      if (!wrong) wrong = result.errors();
      return false;
    }
    return !result->plans.empty();
  };
  // Not every microbatch goes with every number of ranks: from the largest down.
  if (key == MaximisedKey::kMicroBatch) {
    for (std::size_t i = values.size(); i-- > 0 && !is_interrupted(request);) {
      if (fits(i)) {
        found.value = values[i];
        break;
      }
      found.next = values[i];
    }
    if (found.value == 0 && wrong) return *wrong;
    return found;
  }
  // Values below `low` fit, `high` and those above it do not.
  std::size_t low = 0, high = values.size();
  if (fits(high - 1)) {
    low = high;
  } else {
    --high;
  }
  for (std::size_t step = 1; low < high;) {  // doubling first: longer searches take longer
    const std::size_t at = std::min(low + step - 1, low + (high - low) / 2);
    if (fits(at)) {
      low = at + 1, step *= 2;
    } else {
      high = at, step = values.size();
    }
    if (is_interrupted(request)) break;
  }
  if (low == 0 && wrong) return *wrong;
  if (low > 0) found.value = values[low - 1];
  if (low < values.size()) found.next = values[low];
  return found;
}

}  // namespace meshplan
