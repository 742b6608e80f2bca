#include "pattern.hpp"

#include <set>

#include "support/catch.hpp"

namespace meshplan::device {
namespace {

constexpr Collective kAll[] = {Collective::kAllReduce,     Collective::kAllGather,
                               Collective::kReduceScatter, Collective::kAllToAll,
                               Collective::kBroadcast,     Collective::kSendRecv};

std::vector<int> values(const Pattern& p) {
  std::vector<int> all;
  for (std::int64_t i = 0; i < p.size(); ++i) all.push_back(p.at(i));
  return all;
}

// What the members have after the collective, from what they send.
std::vector<std::vector<int>> moved(Collective c, const BufferSizes& b,
                                    const std::vector<std::vector<int>>& sent) {
  const std::size_t ranks = sent.size(), part = static_cast<std::size_t>(b.part);
  std::vector<std::vector<int>> all(ranks);
  for (std::size_t m = 0; m < ranks; ++m) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(b.receive); ++i) {
      int value = 0;
      if (c == Collective::kAllReduce || c == Collective::kReduceScatter) {
        const std::size_t place = c == Collective::kReduceScatter ? m * part + i : i;
        for (const std::vector<int>& of : sent) value += of[place];
      }
      if (c == Collective::kAllGather) value = sent[i / part][i % part];
      if (c == Collective::kAllToAll) value = sent[i / part][m * part + i % part];
      if (c == Collective::kBroadcast) value = sent[0][i];
      if (c == Collective::kSendRecv) value = sent[(m + ranks - 1) % ranks][i];
      all[m].push_back(value);
    }
  }
  return all;
}

TEST_CASE("what is expected of a collective is what it makes of the data that are sent") {
  for (const Collective c : kAll) {
    for (const std::int64_t ranks : {2, 3, 8, 13, 26}) {
      const BufferSizes b = buffer_sizes(c, 40 * ranks, ranks);
      std::vector<std::vector<int>> sent;
      for (std::int64_t m = 0; m < ranks; ++m) {
        sent.push_back(values(Pattern::sent(c, b, m, ranks)));
        CHECK(std::ssize(sent.back()) == b.send);
      }
      const auto want = moved(c, b, sent);
      for (std::int64_t m = 0; m < ranks; ++m) {
        INFO(static_cast<int>(c) << " member " << m << " of " << ranks);
        CHECK(values(Pattern::received(c, b, m, ranks)) == want[static_cast<std::size_t>(m)]);
      }
    }
  }
}

TEST_CASE("sums over many thousands of ranks are whole numbers of 8 bits") {
  for (const std::int64_t ranks : {2, 1000, 1651, 1652, 4096, 16'384, 100'000, 500'000}) {
    const BufferSizes b = buffer_sizes(Collective::kAllReduce, 100'000, ranks);
    const Pattern p =
        Pattern::received(Collective::kAllReduce, {100'000, 100'000, 100'000}, 0, ranks);
    const std::vector<int> all = values(p);
    CHECK(b.part == 100'000);
    CHECK(*std::max_element(all.begin(), all.end()) <= 255);
    CHECK(std::set<int>(all.begin(), all.end()).size() > 1);
  }
}

TEST_CASE("a buffer filled by repeating is the pattern at every place") {
  for (const Collective c : kAll) {
    const BufferSizes b = buffer_sizes(c, 300'007, 4);
    const Pattern p = Pattern::sent(c, b, 1, 4);
    std::vector<int> buffer(static_cast<std::size_t>(b.send), -1);
    std::int64_t written = 0;
    fill(
        p,
        [&](Span s) {
          for (std::int64_t i = s.begin; i < s.end; ++i)
            buffer[static_cast<std::size_t>(i)] = p.at(i);
          written += s.end - s.begin;
        },
        [&](std::int64_t to, std::int64_t from, std::int64_t n) {
          CHECK(from + n <= to);
          std::copy_n(buffer.begin() + from, n, buffer.begin() + to);
        });
    CHECK(buffer == values(p));
    CHECK(written <= 4 * 1024 * 13);
  }
}

TEST_CASE("the ends of every segment are looked at, and never more than a few million elements") {
  for (const std::int64_t ranks : {1, 4, 1000}) {
    for (const std::int64_t elements : {ranks, std::int64_t{1} << 20, std::int64_t{1} << 29}) {
      const BufferSizes b = buffer_sizes(Collective::kAllGather, elements, ranks);
      const Pattern p = Pattern::received(Collective::kAllGather, b, 0, ranks);
      std::set<std::int64_t> begins, ends;
      std::int64_t looked_at = 0;
      for (const Span s : sampled(p)) {
        CHECK(s.begin >= 0);
        CHECK(s.begin < s.end);
        CHECK(s.end <= p.size());
        begins.insert(s.begin), ends.insert(s.end);
        looked_at += s.end - s.begin;
      }
      CHECK(looked_at <= std::int64_t{1} << 21);
      const bool whole = looked_at == p.size();
      for (std::int64_t at = 0; !whole && at < p.size(); at += p.segment()) {
        CHECK(begins.contains(at));
        CHECK(ends.contains(at + p.segment()));
      }
    }
  }
}

}  // namespace
}  // namespace meshplan::device
