#include "layout/groups.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <vector>

#include "base/check.hpp"
#include "layout/digits.hpp"

namespace meshplan {
namespace {

std::int64_t num_ranks(const RankDigits& d) {
  std::int64_t n = 1;
  for (std::size_t i = 0; i < d.count; ++i) n *= d.digits[i].size;
  return n;
}

// Devices in one block of level `l`; the outermost level connects whatever is there.
std::int64_t span_of(const ClusterSpec& c, std::size_t l) {
  const bool outermost = l + 1 == c.levels.size();
  return outermost || c.levels[l].span <= 0 ? std::numeric_limits<std::int64_t>::max()
                                            : c.levels[l].span;
}

void set_reach(GroupShape& g) {
  g.level = 0;
  while (g.level + 1 < g.num_levels && g.blocks[g.level] > 1) ++g.level;
}

}  // namespace

GroupShape shape_of(std::span<const std::int64_t> ranks, const ClusterSpec& c) {
  GroupShape g;
  g.size = static_cast<std::int64_t>(ranks.size());
  g.stride = ranks.size() > 1 ? ranks[1] - ranks[0] : 1;
  g.num_levels = c.levels.size();
  for (std::size_t l = 0; l < g.num_levels; ++l) {
    const std::int64_t span = span_of(c, l);
    std::int64_t most = 0, fewest = g.size, blocks = 0;
    for (std::size_t i = 0; i < ranks.size();) {
      const std::size_t begin = i;
      const std::int64_t last = ranks[i] - ranks[i] % span + (span - 1);  // rank of this block
      if (ranks.back() <= last) i = ranks.size();
      while (i < ranks.size() && ranks[i] <= last) ++i;
      const auto here = static_cast<std::int64_t>(i - begin);
      ++blocks;
      most = std::max(most, here);
      fewest = std::min(fewest, here);
    }
    g.within[l] = most;
    g.fewest[l] = fewest;
    g.blocks[l] = blocks;
  }
  set_reach(g);
  return g;
}

namespace {

// [F-LAY-2] Bandwidth of a ring through the group: least, over the levels it crosses, of the
// members that share a block's uplinks (in the emptiest block) times the uplink of one device.
// Used to tell which of several differently placed groups is the slowest.
double ring_bandwidth(const GroupShape& g, const ClusterSpec& c) {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t l = 0; l < g.num_levels; ++l) {
    const std::int64_t parts = l == 0 ? g.size : g.blocks[l - 1];
    if (parts == g.blocks[l]) continue;
    const auto members = static_cast<double>(l == 0 ? 1 : g.fewest[l - 1]);
    const LinkLevel& level = c.levels[l];
    least = std::min(least, members * level.bandwidth.si() / level.oversubscription);
  }
  return least;
}

bool is_worse(const GroupShape& a, const GroupShape& b, const ClusterSpec& c) {
  const double bandwidth_a = ring_bandwidth(a, c);
  const double bandwidth_b = ring_bandwidth(b, c);
  if (bandwidth_a != bandwidth_b) return bandwidth_a < bandwidth_b;
  if (a.level != b.level) return a.level > b.level;
  if (a.blocks != b.blocks) return a.blocks > b.blocks;
  if (a.fewest != b.fewest) return a.fewest < b.fewest;
  return a.within > b.within;
}

// [F-LAY-3] Where every block holds whole digits (or an even share of one), all groups have the
// same shape: members per block = product of the member digits' sizes inside the block.
// False if some level's blocks cut the digits unevenly.
bool aligned_shape(const RankDigits& d, const ClusterSpec& c, GroupShape& g) {
  if (d.is_cut()) return false;
  g = {};
  g.num_levels = c.levels.size();
  g.size = 1;
  bool first = true;
  for (std::size_t i = 0; i < d.count; ++i) {
    if (!d.digits[i].member || d.digits[i].size == 1) continue;
    if (first) g.stride = d.digits[i].stride;
    first = false;
    g.size *= d.digits[i].size;
  }
  const std::int64_t ranks = num_ranks(d);
  for (std::size_t l = 0; l < g.num_levels; ++l) {
    const std::int64_t span = span_of(c, l);
    std::int64_t inside = 1;
    if (span >= ranks) {
      inside = g.size;
    } else {
      std::int64_t covered = 1;
      for (std::size_t i = 0; i < d.count && covered < span; ++i) {
        const Digit& digit = d.digits[i];
        if (span % covered != 0) return false;
        const std::int64_t share = std::min(digit.size, span / covered);
        if (digit.size % share != 0) return false;
        if (digit.member) inside *= share;
        covered *= share;
        if (share < digit.size) break;
      }
      if (covered != span) return false;
    }
    g.within[l] = g.fewest[l] = inside;
    g.blocks[l] = g.size / inside;
  }
  set_reach(g);
  return true;
}

// Ranks of the group's digits that are not members: one per set of groups alike.
std::vector<std::int64_t> bases(RankDigits d) {
  for (std::size_t i = 0; i < d.count; ++i) d.digits[i].member = !d.digits[i].member;
  return member_offsets(d);
}

// Where nested blocks repeat after `period` ranks, groups whose lowest ranks differ by a multiple
// of it look the same. 0: the blocks do not nest.
std::int64_t period(const ClusterSpec& c, std::int64_t ranks) {
  std::int64_t p = 1;
  for (std::size_t l = 0; l < c.levels.size(); ++l) {
    const std::int64_t span = span_of(c, l);
    if (span >= ranks) break;
    if (span % p != 0) return 0;
    p = span;
  }
  return p;
}

// A group that repeats itself in other blocks, and what it repeats.
struct Repeated {
  RankDigits digits;
  std::int64_t times = 1;
  std::int64_t stride = 0;  // of the repetitions
};

// Digits count in ranks of distances that are whole periods from some value on: members beyond it
// lie in other blocks just as those before do, and groups that begin beyond it look like one that
// begins before.
Repeated repeated(const RankDigits& d, std::int64_t period) {
  Repeated r{d};
  if (period == 0 || d.is_cut()) return r;
  for (std::size_t i = 0; i < d.count; ++i) {
    Digit& digit = r.digits.digits[i];
    const std::int64_t until = period / std::gcd(period, digit.stride);
    if (!digit.member) {
      digit.size = std::min(digit.size, until);
    } else if (digit.size > until && digit.size % until == 0) {
      if (r.times == 1) r.stride = digit.stride * until;
      r.times *= digit.size / until;
      digit.size = until;
    }
  }
  return r;
}

// The shape of all repetitions. Levels whose blocks hold `ranks` connect whatever there is.
void repeat(GroupShape& g, const Repeated& r, const ClusterSpec& c, std::int64_t ranks) {
  if (r.times == 1) return;
  if (g.size == 1) g.stride = r.stride;
  g.size *= r.times;
  for (std::size_t l = 0; l < g.num_levels; ++l) {
    if (span_of(c, l) < ranks) {
      g.blocks[l] *= r.times;
    } else {
      g.within[l] = g.fewest[l] = g.size;
      g.blocks[l] = 1;
    }
  }
  set_reach(g);
}

// Looks at every group that can look different.
GroupShape worst_shape(const RankDigits& whole, const ClusterSpec& c) {
  const std::int64_t num = num_ranks(whole), repeats = period(c, num);
  const Repeated r = repeated(whole, repeats);
  const RankDigits& d = r.digits;
  const std::vector<std::int64_t> offsets = member_offsets(d);
  const auto all = static_cast<std::int64_t>(offsets.size());
  const std::int64_t groups = d.run > 0 ? all / d.run : d.step > 0 ? d.step : 1;
  const std::int64_t size = all / groups;
  std::vector<bool> seen(static_cast<std::size_t>(repeats));
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(size));
  GroupShape worst;
  bool any = false;
  for (const std::int64_t base : bases(d)) {
    if (repeats > 0) {
      const auto phase = static_cast<std::size_t>(base % repeats);
      if (seen[phase]) continue;
      seen[phase] = true;
    }
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t start = d.run > 0 ? group * d.run : group;
      const std::int64_t step = d.step > 0 ? d.step : 1;
      for (std::int64_t i = 0; i < size; ++i) {
        ranks[static_cast<std::size_t>(i)] =
            base + offsets[static_cast<std::size_t>(start + i * step)];
      }
      GroupShape shape = shape_of(ranks, c);
      repeat(shape, r, c, num);
      if (!any || is_worse(shape, worst, c)) worst = shape;
      any = true;
    }
  }
  return worst;
}

// All that `worst_shape` depends on.
std::vector<std::int64_t> key_of(const RankDigits& d, const ClusterSpec& c) {
  std::vector<std::int64_t> key{d.run, d.step, static_cast<std::int64_t>(d.count)};
  for (std::size_t i = 0; i < d.count; ++i) {
    const Digit& digit = d.digits[i];
    key.insert(key.end(), {digit.size, digit.stride, digit.member ? 1 : 0});
  }
  for (std::size_t l = 0; l < c.levels.size(); ++l) {
    const LinkLevel& level = c.levels[l];
    const double bandwidth = level.bandwidth.si() / level.oversubscription;
    key.insert(key.end(), {span_of(c, l), std::bit_cast<std::int64_t>(bandwidth)});
  }
  return key;
}

// A search asks for few shapes many times, and one of a hundred thousand ranks takes milliseconds.
GroupShape known_worst_shape(const RankDigits& d, const ClusterSpec& c) {
  constexpr std::size_t kMost = 4096;  // shapes, of about 300 bytes
  thread_local std::map<std::vector<std::int64_t>, GroupShape> known;
  std::vector<std::int64_t> key = key_of(d, c);
  if (const auto it = known.find(key); it != known.end()) return it->second;
  if (known.size() >= kMost) known.clear();
  return known.emplace(std::move(key), worst_shape(d, c)).first->second;
}

// [F-LAY-4] Two ends of a pipeline, or two neighbours in it. Stages follow one another through the
// blocks, so some neighbours sit in different blocks of a level exactly if the first and the last
// stage do, which is if the whole pipeline touches several.
GroupShape pair_shape(const GroupShape& pipeline, Group kind) {
  if (pipeline.size == 1) return pipeline;
  GroupShape g;
  g.size = 2;
  g.stride = kind == Group::kEmbedding ? (pipeline.size - 1) * pipeline.stride : pipeline.stride;
  g.num_levels = pipeline.num_levels;
  g.level = pipeline.level;
  for (std::size_t l = 0; l < g.num_levels; ++l) {
    const bool apart = l < g.level;
    g.within[l] = g.fewest[l] = apart ? 1 : 2;
    g.blocks[l] = apart ? 2 : 1;
  }
  return g;
}

}  // namespace

GroupShape group_shape(const Strategy& s, const ClusterSpec& c, Group g) {
  PLAN_CHECK(c.levels.size() <= kMaxLevels);
  if (g == Group::kPpNeighbour || g == Group::kEmbedding) {
    return pair_shape(group_shape(s, c, Group::kPp), g);
  }
  const RankDigits digits = rank_digits(s, g);
  GroupShape shape;
  if (!aligned_shape(digits, c, shape)) shape = known_worst_shape(digits, c);
  return shape;
}

}  // namespace meshplan
