#include "study/maximise.hpp"

#include "frameworks/preset.hpp"
#include "io/limits.hpp"
#include "search/cases.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

SearchRequest request(std::int64_t seq_len) {
  SearchRequest r;
  r.base = framework_preset(Framework::kMegatron);
  r.base.global_batch = 24, r.base.seq_len = seq_len;
  r.limits = *parse_limits("tp=1,pp=1,cp=1,recompute=none", "--fix");
  return r;
}

bool fits(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& r) {
  const Result<SearchResult> found = search(m, c, r);
  return found && !found->plans.empty();
}

}  // namespace

TEST_CASE("the longest sequence fits, and the next one does not") {
  ModelSpec m = small_model(8, 2048);
  m.max_seq_length = 1 << 20;
  const ClusterSpec c = small_cluster(1, 4, Bytes{40 * kGiB});
  const SearchRequest r = request(1 << 20);
  const Result<Maximum> most = maximise(m, c, r, MaximisedKey::kSeqLen);
  REQUIRE(most);
  REQUIRE(most->value > 0);
  CHECK(most->value % 1024 == 0);
  REQUIRE(most->next);
  CHECK(*most->next == most->value + 1024);
  CHECK(fits(m, c, with_value(r, MaximisedKey::kSeqLen, most->value)));
  CHECK_FALSE(fits(m, c, with_value(r, MaximisedKey::kSeqLen, *most->next)));
  CHECK(most->searches < 25);
}

TEST_CASE("the largest microbatch divides the batch") {
  const ModelSpec m = small_model(8, 2048);
  const ClusterSpec c = small_cluster(1, 4, Bytes{40 * kGiB});
  SearchRequest r = request(2048);
  const Result<Maximum> most = maximise(m, c, r, MaximisedKey::kMicroBatch);
  REQUIRE(most);
  REQUIRE(most->value > 0);
  CHECK(24 % most->value == 0);
  CHECK(fits(m, c, with_value(r, MaximisedKey::kMicroBatch, most->value)));
  // Four ranks with 24 sequences have 1, 2, 3 or 6 each, and not 4: all fit this small model.
  CHECK(most->value == 6);
  CHECK(most->next == 8);
  CHECK_FALSE(fits(m, c, with_value(r, MaximisedKey::kMicroBatch, *most->next)));
}

TEST_CASE("where all that is asked for fits nothing is larger, and where nothing fits it is zero") {
  const ModelSpec m = small_model(8, 2048);
  const Result<Maximum> all =
      maximise(m, small_cluster(1, 4, Bytes{80 * kGiB}), request(2048), MaximisedKey::kSeqLen);
  REQUIRE(all);
  CHECK(all->value == 2048);
  CHECK_FALSE(all->next);
  CHECK(all->searches == 1);
  const Result<Maximum> none =
      maximise(m, small_cluster(1, 4, Bytes{1 * kGiB}), request(2048), MaximisedKey::kSeqLen);
  REQUIRE(none);
  CHECK(none->value == 0);
  CHECK(none->next == 128);
}
