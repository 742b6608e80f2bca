#include "study/same_work.hpp"

#include "frameworks/preset.hpp"
#include "space/target.hpp"

namespace meshplan {

SearchRequest same_work(const Strategy& s) {
  SearchRequest request;
  request.base = with_preset(Strategy{}, preset_of(s));
  request.base.precision = s.precision;
  request.base.global_batch = s.global_batch;
  request.base.seq_len = s.seq_len;
  return request;
}

std::optional<SearchResult> best_for_same_work(const ModelSpec& m, const ClusterSpec& c,
                                               const Strategy& s, Target target,
                                               const Progress& progress) {
  SearchRequest request = same_work(s);
  request.space = space_of(target);
  request.base = as_configured(request.space, request.base, m, c);
  request.top = 1;
  Result<SearchResult> found = search(m, c, request, progress);
  if (!found || found->plans.empty()) return std::nullopt;
  return std::move(found).value();
}

}  // namespace meshplan
