#include "space/space.hpp"

#include <array>
#include <set>

#include "frameworks/preset.hpp"
#include "search/cases.hpp"
#include "space/lists.hpp"
#include "space/space_memo.hpp"
#include "space/strategies.hpp"
#include "spec/axes.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::search_test;

namespace {

SearchRequest request_for(std::int64_t global_batch) {
  SearchRequest r;
  r.base = framework_preset(Framework::kMegatron);
  r.base.global_batch = global_batch;
  r.base.seq_len = 2048;
  return r;
}

std::int64_t sum_of(const std::map<std::string, std::int64_t>& counts) {
  std::int64_t sum = 0;
  for (const auto& [reason, n] : counts) sum += n;
  return sum;
}

// Splits and shardings of a mesh that may be combined.
std::size_t num_placed(const SearchSpace& space, const Mesh& mesh, const ModelSpec& m) {
  Strategy s;
  s.tp = mesh.tp, s.pp = mesh.pp, s.cp = mesh.cp, s.dp = mesh.dp;
  std::size_t n = 0;
  for (const Split& split : space.splits(mesh)) {
    for (const Sharding& sharding : space.shardings(mesh)) {
      s.ep = split.ep, s.etp = split.etp, s.order = sharding.order;
      n += keeps_pipeline_ranks(s, m) ? 1 : 0;
    }
  }
  return n;
}

// Legal strategies, partitions not counted.
std::int64_t num_legal(const SearchSpace& space, const ModelSpec& m = {}) {
  std::int64_t n = 0;
  for (const Mesh& mesh : space.meshes()) {
    const std::size_t placed = num_placed(space, mesh, m);
    for (const std::int64_t b : space.micro_batches(mesh)) {
      n += static_cast<std::int64_t>(space.cp_kinds(mesh).size() * placed *
                                     space.options(mesh).size() * space.schedules(mesh, b).size());
    }
  }
  return n;
}

}  // namespace

TEST_CASE("divisors are complete and in order") {
  CHECK(divisors(1) == std::vector<std::int64_t>{1});
  CHECK(divisors(12) == std::vector<std::int64_t>{1, 2, 3, 4, 6, 12});
  CHECK(divisors(49) == std::vector<std::int64_t>{1, 7, 49});
}

// Two GPUs, four layers, two sequences; 3 recomputation modes times 4 ways of offloading = 12.
//   tp 1 pp 1 cp 1: zero 0..3                                            4 x 12 =  48
//   tp 2: 2 micro-batches, sequence parallel or not                  2 x 2 x 12 =  48
//   pp 2: 2 micro-batches; 1f1b, gpipe, interleaved vp 2 and 3 (embedding
//         and head alone in a chunk), zb-h1, zb-v, dualpipe          2 x 7 x 12 = 168
//   cp 2: 2 micro-batches, 3 kinds, zero 0..3                    2 x 3 x 4 x 12 = 288
TEST_CASE("the space of two GPUs has the size that counting by hand gives") {
  const ModelSpec m = small_model(4, 1024);
  const ClusterSpec c = small_cluster(1, 2, Bytes{80 * kGiB});
  const auto space = SearchSpace::make(m, c, request_for(2));
  REQUIRE(space.ok());
  CHECK(space->size() == 48 + 48 + 168 + 288);
}

// On 2^k GPUs with 2^b sequences, everything else fixed: tp pp cp dp = 2^k, and micro-batches are
// the divisors of 2^b / dp. With dp = 2^i there are C(k - i + 2, 2) ways to split the rest over tp,
// pp and cp, and b - i + 1 micro-batches.
TEST_CASE("meshes and micro-batches are as many as their closed form says") {
  SearchRequest r = request_for(1);
  r.limits = {only("schedule", {"1f1b"}),
              only("zero", {"1"}),
              only("zero_group", {"0"}),
              only("order", {"tp-cp-ep-dp-pp"}),
              only("recompute", {"none"}),
              only("offload.optimizer", {"false"}),
              only("offload.activations", {"false"}),
              only("cp_kind", {"ring"}),
              only("sequence_parallel", {"false"})};
  const ModelSpec m = small_model(4, 1024);
  for (std::int64_t k = 1; k <= 12; ++k) {
    for (std::int64_t b = k; b <= k + 3; ++b) {
      const ClusterSpec c = small_cluster(std::max<std::int64_t>(1, (1 << k) / 4),
                                          std::min<std::int64_t>(4, 1 << k), Bytes{80 * kGiB});
      r.base.global_batch = 1 << b;
      const auto space = SearchSpace::make(m, c, r);
      INFO((space.ok() ? "" : space.errors().front().message));
      REQUIRE(space.ok());
      std::int64_t expected = 0;
      for (std::int64_t i = 0; i <= k; ++i) {
        expected += (k - i + 2) * (k - i + 1) / 2 * (b - i + 1);
      }
      CAPTURE(k, b);
      CHECK(space->size() == expected);
    }
  }
}

// tp dp = 2^k: with tp = 2^i and etp = 2^e, e <= i, ep is one of the k - e + 1 divisors of what is
// left; twice that where the sequence may be split over the tensor ranks or not.
TEST_CASE("expert splits are as many as their closed form says") {
  ModelSpec m = small_model(4, 1024);
  add_experts(m, 64, 0, 1);
  SearchRequest r = request_for(4096);
  r.limits = {only("overlap.ep", {"false"}),
              only("pp", {"1"}),
              only("cp", {"1"}),
              only("micro_batch", {"1"}),
              only("zero", {"1"}),
              only("zero_group", {"0"}),
              only("recompute", {"none"}),
              only("offload.optimizer", {"false"}),
              only("offload.activations", {"false"})};
  for (std::int64_t k = 1; k <= 9; ++k) {
    const ClusterSpec c = small_cluster(std::max<std::int64_t>(1, (1 << k) / 8),
                                        std::min<std::int64_t>(8, 1 << k), Bytes{80 * kGiB});
    const auto space = SearchSpace::make(m, c, r);
    REQUIRE(space.ok());
    std::int64_t expected = 0;
    for (std::int64_t i = 0; i <= k; ++i) {
      for (std::int64_t e = 0; e <= i; ++e) expected += (k - e + 1) * (i > 0 ? 2 : 1);
    }
    CAPTURE(k);
    CHECK(space->size() == expected);
  }
}

// pp 2 with fixed zero, no offloading and no recomputation, on 2 GPUs with 2 sequences: micro_batch
// 1 has 2 microbatches, micro_batch 2 has 1. Legal are 1f1b, gpipe and zb-h1 with both, zb-v with
// both, interleaved (vp 2 and 3) with 2 microbatches alone, and dualpipe (4 microbatches or more)
// with none.
TEST_CASE("a pipeline's schedules are legal where their microbatches allow") {
  const ModelSpec m = small_model(4, 1024);
  const ClusterSpec c = small_cluster(1, 2, Bytes{80 * kGiB});
  SearchRequest r = request_for(2);
  r.limits = {only("pp", {"2"}), only("recompute", {"none"}), only("offload.optimizer", {"false"}),
              only("offload.activations", {"false"})};
  const auto space = SearchSpace::make(m, c, r);
  REQUIRE(space.ok());
  CHECK(space->size() == 14);
  CHECK(num_legal(*space) == 10);
  CHECK(sum_of(space->illegal()) == 4);
}

TEST_CASE("schedules that are not searched by default are found where they are asked for") {
  const ModelSpec m = small_model(4, 1024);
  const ClusterSpec c = small_cluster(1, 2, Bytes{80 * kGiB});
  const auto found = [&](std::vector<Limit> limits) {
    SearchRequest r = request_for(2);
    r.limits = std::move(limits);
    const auto space = SearchSpace::make(m, c, r);
    REQUIRE(space.ok());
    std::set<std::string_view> names;
    for (const Mesh& mesh : space->meshes()) {
      for (const ScheduleChoice& s : space->schedules(mesh, 1)) names.insert(name_of(s.schedule));
    }
    return names;
  };
  const Limit pipeline = only("pp", {"2"});
  CHECK(found({pipeline}).count("v-half") == 0);
  CHECK(found({pipeline, any("schedule")}).count("v-min") == 1);
  CHECK(found({pipeline, only("schedule", {"v-half", "1f1b"})}) ==
        std::set<std::string_view>{"1f1b", "v-half"});
}

TEST_CASE("legal and illegal strategies add up to the space") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const Case c = random_case(seed);
    CAPTURE(seed);
    const auto space = SearchSpace::make(c.model, c.cluster, c.request);
    REQUIRE(space.ok());
    CHECK(num_legal(*space, c.model) + sum_of(space->illegal()) == space->size());
  }
}

TEST_CASE("every legal strategy passes every rule, and keeps every limit") {
  for (unsigned seed = 100; seed < 125; ++seed) {
    const Case c = random_case(seed);
    CAPTURE(seed);
    const auto space = SearchSpace::make(c.model, c.cluster, c.request);
    REQUIRE(space.ok());
    for (const Mesh& mesh : space->meshes()) {
      for (const std::int64_t b : space->micro_batches(mesh)) {
        for (const ScheduleChoice& schedule : space->schedules(mesh, b)) {
          for (const Split& split : space->splits(mesh)) {
            PartialStrategy choice;
            choice.tp = mesh.tp, choice.pp = mesh.pp, choice.cp = mesh.cp, choice.dp = mesh.dp;
            choice.micro_batch = b;
            choice.schedule = schedule.schedule, choice.vp = schedule.vp;
            choice.ep = split.ep, choice.etp = split.etp;
            choice.sequence_parallel = split.sequence_parallel;
            choice.cp_kind =
                space->cp_kinds(mesh).empty() ? CpKind::kRing : space->cp_kinds(mesh).front();
            if (space->cp_kinds(mesh).empty() || space->shardings(mesh).empty()) continue;
            const Sharding& sharding = space->shardings(mesh).back();
            choice.zero = sharding.zero, choice.zero_group = sharding.zero_group;
            choice.order = sharding.order;
            Strategy s = with_partial(space->bases()[mesh.base], choice);
            Strategy flat = s;
            flat.vp = 1;
            if (s.vp > 1) {
              s.stage_layers = stage_layers(flat, c.model);
            }
            CAPTURE(to_text(s));
            REQUIRE_FALSE(has_errors(validate(s, c.model, c.cluster)));
            for (const Limit& limit : c.request.limits) {
              if (limit.key != "recompute") REQUIRE(satisfies(s, limit));
            }
          }
        }
      }
    }
  }
}

// Every combination of the lists, written out: none appears twice.
TEST_CASE("no strategy is counted twice") {
  for (unsigned seed = 130; seed < 150; ++seed) {
    const Case c = random_case(seed);
    CAPTURE(seed);
    const auto space = SearchSpace::make(c.model, c.cluster, c.request);
    REQUIRE(space.ok());
    std::set<std::string> seen;
    for_each_legal(*space, [&](Strategy s, const MemoryOption& option) {
      s.recompute_layers = {static_cast<std::int64_t>(option.counts)};  // tells the rules apart
      REQUIRE(seen.insert(to_text(s)).second);
    });
    CHECK(static_cast<std::int64_t>(seen.size()) == num_legal(*space));
  }
}

TEST_CASE("where proxies send tokens both dispatchers are searched, unless the key is fixed") {
  ModelSpec m = small_model(4, 1024);
  ClusterSpec c = small_cluster(2, 2, Bytes{80 * kGiB});
  SearchRequest r = request_for(4);
  const Limit apart = only("overlap.ep", {"false"});
  r.limits = {apart};
  const auto bases = [&] {
    const auto space = SearchSpace::make(m, c, r);
    REQUIRE(space.ok());
    return space->bases();
  };
  add_experts(m, 8, 0, 1);
  CHECK(bases().size() == 1);
  c.levels.back().kind = LinkKind::kEfa;
  c.levels.back().token_message = Seconds{1e-6};
  const std::vector<Strategy> both = bases();
  REQUIRE(both.size() == 2);
  CHECK(both[0].runtime.flex_dispatcher != both[1].runtime.flex_dispatcher);
  // Without messages they are the same, and stand in the space once.
  const auto space = SearchSpace::make(m, c, r);
  std::array<int, 2> alone{}, spread{};  // splits of each base
  for (const Mesh& mesh : space->meshes()) {
    for (const Split& split : space->splits(mesh)) {
      ++(split.ep == 1 ? alone : spread)[mesh.base];
    }
  }
  CHECK(alone[0] > 0);
  CHECK(alone[1] == 0);
  CHECK(spread[0] > 0);
  CHECK(spread[0] == spread[1]);
  r.limits = {apart, only("kernels.flex_dispatcher", {"true"})};
  CHECK(bases().size() == 1);
  r.limits = {apart};
  m.moe.reset();
  CHECK(bases().size() == 1);
}

TEST_CASE("tokens are sent beside another microbatch's layers or not, unless the key is fixed") {
  ModelSpec m = small_model(4, 1024);
  const ClusterSpec c = small_cluster(2, 2, Bytes{80 * kGiB});
  SearchRequest r = request_for(8);
  const auto space = [&] {
    auto made = SearchSpace::make(m, c, r);
    REQUIRE(made.ok());
    return std::move(made.value());
  };
  CHECK(space().bases().size() == 1);  // a dense model
  add_experts(m, 8, 0, 1);
  const SearchSpace both = space();
  REQUIRE(both.bases().size() == 2);
  CHECK_FALSE(both.bases()[0].overlap.ep);
  CHECK(both.bases()[1].overlap.ep);
  int beside = 0, in_pipelines = 0;
  for_each_legal(both, [&](const Strategy& s, const MemoryOption& option) {
    if (!s.overlap.ep) return;
    ++beside;
    in_pipelines += s.pp > 1 ? 1 : 0;
    CHECK(s.ep > 1);
    CHECK((s.pp == 1 || s.schedule == Schedule::kInterleaved));
    CHECK(option.recompute != Recompute::kFull);
    CHECK_FALSE(option.offload_activations);
  });
  CHECK(beside > in_pipelines);
  CHECK(in_pipelines > 0);
  // Stated, the same strategies are legal, and the others are counted with the rule they break.
  r.limits = {only("overlap.ep", {"true"})};
  const SearchSpace stated = space();
  REQUIRE(stated.bases().size() == 1);
  CHECK(num_legal(stated) == beside);
  CHECK(stated.illegal().contains("illegal (overlap.ep, ep)"));
  CHECK(stated.illegal().contains("illegal (overlap.ep, schedule)"));
  CHECK(stated.illegal().contains("illegal (overlap.ep, recompute)"));
  r.limits = {only("overlap.ep", {"false"})};
  CHECK(space().bases().size() == 1);
  // Other frameworks' training codes have no such schedule.
  r.limits.clear();
  r.base = with_preset(Strategy{}, Framework::kDeepspeed);
  r.base.global_batch = 8, r.base.seq_len = 1024;
  CHECK(space().bases().size() == 1);
}

TEST_CASE("each framework's space holds only what it runs") {
  const ModelSpec m = small_model(8, 1024);
  const ClusterSpec c = small_cluster(2, 4, Bytes{80 * kGiB});
  SearchRequest r = request_for(32);
  const auto all = SearchSpace::make(m, c, r);
  REQUIRE(all.ok());
  r.space = Space::kMegatron;
  const auto megatron = SearchSpace::make(m, c, r);
  REQUIRE(megatron.ok());
  CHECK(num_legal(*megatron) < num_legal(*all));
  for (const Mesh& mesh : megatron->meshes()) {
    for (const std::int64_t b : megatron->micro_batches(mesh)) {
      for (const ScheduleChoice& s : megatron->schedules(mesh, b)) {
        CHECK((s.schedule == Schedule::k1f1b || s.schedule == Schedule::kInterleaved));
      }
    }
  }
  CHECK(megatron->divisions().partition == PartitionRule::kAny);
  r.space = Space::kDeepspeed;
  const auto deepspeed = SearchSpace::make(m, c, r);
  REQUIRE(deepspeed.ok());
  for (const Mesh& mesh : deepspeed->meshes()) {
    for (const Split& s : deepspeed->splits(mesh)) CHECK_FALSE(s.sequence_parallel);
    for (const Sharding& s : deepspeed->shardings(mesh)) CHECK((s.zero <= 1 || mesh.pp == 1));
    if (mesh.cp > 1) {
      for (const CpKind kind : deepspeed->cp_kinds(mesh)) CHECK(kind == CpKind::kUlysses);
    }
  }
  r.space = Space::kFsdp;
  const auto fsdp = SearchSpace::make(m, c, r);
  REQUIRE(fsdp.ok());
  for (const Mesh& mesh : fsdp->meshes()) {
    CHECK(mesh.pp == 1);
    for (const Sharding& s : fsdp->shardings(mesh)) CHECK(s.zero >= 2);
  }
}

TEST_CASE("fixing a key that no search varies changes the base, or says why it cannot") {
  const ModelSpec m = small_model(4, 1024);
  const ClusterSpec c = small_cluster(1, 2, Bytes{80 * kGiB});
  SearchRequest r = request_for(2);
  r.limits = {only("precision", {"fp16", "bf16"})};
  const auto two = SearchSpace::make(m, c, r);
  REQUIRE(two.ok());
  REQUIRE(two->bases().size() == 2);
  CHECK(two->bases()[0].precision == Precision::kFp16);
  CHECK(two->bases()[1].precision == Precision::kBf16);
  r.limits = {only("precision", {"fp8"})};  // the device has none
  CHECK_FALSE(SearchSpace::make(m, c, r).ok());
  r.limits = {at_most("kernels.host_factor", 0.5)};
  CHECK_FALSE(SearchSpace::make(m, c, r).ok());
  r.limits = {only("framework", {"torchtitan"}), only("grad_dtype", {"bf16"})};
  const auto other = SearchSpace::make(m, c, r);
  REQUIRE(other.ok());
  CHECK(other->bases()[0].framework == Framework::kTorchtitan);
  CHECK(other->bases()[0].grad_dtype == Dtype::kBf16);
  // Not dropped as what the search chooses itself: it would plan other chunks than those.
  r.limits = {only("chunk_layers", {"[2,2]"})};
  CHECK_FALSE(SearchSpace::make(m, c, r).ok());
}

TEST_CASE("what spaces of one model remember of each other changes none of them") {
  const ModelSpec m = small_model(6, 1024);
  const ClusterSpec c = small_cluster(3, 8, Bytes{80 * kGiB});
  SpaceMemo memo;
  SearchRequest r = request_for(48);
  const auto made = [&](SpaceMemo* of) {
    auto space = SearchSpace::make(m, c, r, of);
    REQUIRE(space.ok());
    return std::move(space).value();
  };
  for (const Space space : {Space::kMegatron, Space::kFull, Space::kFsdp, Space::kMegatron}) {
    r.space = space;
    for (const bool plans_only : {false, true}) {
      r.plans_only = plans_only;
      for (const Limit& limit : {at_most("tp", std::int64_t{8}), only("zero", {"1", "2"}),
                                 at_most("vp", std::int64_t{1}), only("recompute", {"full"}),
                                 at_most("micro_batch", std::int64_t{2})}) {
        r.limits = {limit};
        const SearchSpace alone = made(nullptr), with_memo = made(&memo);
        const Choices choices = choices_of(alone);
        CHECK(choices.all.size() > 1);
        CHECK((choices_of(with_memo) == choices));
        CHECK(with_memo.size() == alone.size());
        CHECK(with_memo.illegal() == alone.illegal());
      }
    }
  }
}

TEST_CASE("a space that is narrowed has what is legal in the one that is made with more limits") {
  ModelSpec moe = small_model(6, 1024);
  add_experts(moe, 8, 0, 1);
  const ClusterSpec c = small_cluster(3, 8, Bytes{80 * kGiB});
  const Limit near{"pp", LimitOp::kAtLeast, {std::int64_t{2}}};
  for (const ModelSpec& m : {small_model(6, 1024), moe}) {
    for (const Space in : {Space::kFull, Space::kMegatron, Space::kFsdp}) {
      SearchRequest r = request_for(48);
      r.space = in;
      r.plans_only = true;
      for (const bool limited : {false, true}) {
        r.limits = {};
        if (limited) r.limits = {at_most("tp", std::int64_t{4}), only("zero", {"1", "3"})};
        const auto wide = SearchSpace::make(m, c, r);
        REQUIRE(wide.ok());
        const auto made_with = [&](const std::vector<Limit>& more) {
          SearchRequest narrow = r;
          narrow.limits.insert(narrow.limits.end(), more.begin(), more.end());
          auto made = SearchSpace::make(m, c, narrow);
          REQUIRE(made.ok());
          return std::pair{std::move(narrow), std::move(made).value()};
        };
        for (const std::vector<Limit>& more : std::vector<std::vector<Limit>>{
                 {at_most("tp", std::int64_t{2}), near},
                 {only("pp", {"1"})},
                 {only("schedule", {"1f1b"}), at_most("micro_batch", std::int64_t{2})},
                 {at_most("vp", std::int64_t{2}), at_most("cp", std::int64_t{2})},
                 {only("ep", {"2"}), only("sequence_parallel", {"true"})},
                 {only("tp", {"5"})}}) {
          CAPTURE(name_of(in), limited, to_text(more.front()));
          const auto [request, made] = made_with(more);
          REQUIRE(SearchSpace::can_narrow(more));
          CHECK((choices_of(wide->narrowed(more)) == choices_of(made)));
        }
        SpaceMemo memo;
        for (const std::vector<Limit>& more : std::vector<std::vector<Limit>>{
                 {only("zero", {"0"})},
                 {only("zero", {"3"})},
                 {only("recompute", {"none"})},
                 {only("recompute", {"full"})},
                 {only("offload.activations", {"true"})},
                 {only("offload.optimizer", {"true"}), only("zero", {"1"})}}) {
          CAPTURE(name_of(in), limited, to_text(more.front()));
          const auto [request, made] = made_with(more);
          REQUIRE(SearchSpace::can_relist(more));
          const Choices relisted = choices_of(wide->relisted(m, c, request, &memo));
          CHECK((relisted == choices_of(made)));
          const std::vector<Limit> few{near, at_most("tp", std::int64_t{2})};
          CHECK((choices_of(wide->relisted(m, c, request).narrowed(few)) ==
                 choices_of(made.narrowed(few))));
        }
      }
    }
  }
  CHECK_FALSE(SearchSpace::can_narrow({only("zero", {"1"})}));
  CHECK_FALSE(SearchSpace::can_narrow({near, only("recompute", {"full"})}));
  CHECK_FALSE(SearchSpace::can_relist({near, only("recompute", {"full"})}));
}
