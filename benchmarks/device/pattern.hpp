#pragma once
// Known data for the check of a collective: small whole numbers, so that sums are exact in every
// type, different at every place and from every rank, so that data in the wrong place shows, and
// periodic, so that filling and checking cost little.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "spec/kinds.hpp"

namespace meshplan::device {

// Buffers of one collective, in elements of one rank.
struct BufferSizes {
  std::int64_t send = 0, receive = 0;
  std::int64_t part = 0;  // of one rank, in the operations that have parts
};

// `elements`: the operation's bytes over the element size. Zero sizes: too small to be divided.
constexpr BufferSizes buffer_sizes(Collective c, std::int64_t elements, std::int64_t ranks) {
  const std::int64_t part = elements / ranks;
  switch (c) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kSendRecv:
      return {elements, elements, elements};
    case Collective::kAllGather:
      return {part, part * ranks, part};
    case Collective::kReduceScatter:
      return {part * ranks, part, part};
    case Collective::kAllToAll:
      return {part * ranks, part * ranks, part};
  }
  return {};
}

// Elements after which the data of a group of `ranks` repeat: a prime, and for sums so large that
// no more than 254 ranks add 1 at the same place, a whole number that 8 bits hold, as bf16's
// mantissa does. The last one serves 500 000 ranks.
constexpr std::int64_t period_of(Collective c, std::int64_t ranks) {
  const bool adds = c == Collective::kAllReduce || c == Collective::kReduceScatter;
  for (const std::int64_t p : {13, 61, 251, 1021}) {
    if (!adds || 2 * ((ranks + p - 1) / p) <= 254) return p;
  }
  return 4093;
}

// What a buffer holds: equal segments, each from its own place of one periodic row of numbers.
class Pattern {
 public:
  // What member m of `ranks` sends.
  static Pattern sent(Collective c, const BufferSizes& b, std::int64_t m, std::int64_t ranks) {
    if (c == Collective::kAllReduce || c == Collective::kReduceScatter) {
      // Two places of each period are 1, others for every member; the first has one more, without
      // which as many members as a period has places would make all sums equal.
      Pattern p(period_of(c, ranks), b.send, b.send);
      p.row_[0] = p.row_[1] = 1;
      p.row_[2] = m == 0 ? 1 : 0;
      p.begin_at(kShift * m);
      return p;
    }
    // To each member its own part.
    Pattern p = counting(c, b.send, c == Collective::kAllToAll ? b.part : b.send, ranks);
    for (std::int64_t to = 0; to < p.segments(); ++to) p.begin_at(kShift * m + 3 * to);
    return p;
  }

  // What member m has afterwards. send-recv: data of the member before it.
  static Pattern received(Collective c, const BufferSizes& b, std::int64_t m, std::int64_t ranks) {
    if (c == Collective::kAllReduce || c == Collective::kReduceScatter) {
      Pattern p(period_of(c, ranks), b.receive, b.receive);
      for (std::int64_t other = 0; other < ranks; ++other) {
        for (const std::int64_t place : {0, 1}) ++p.row_[p.wrapped(place - kShift * other)];
      }
      ++p.row_[2];
      p.begin_at(c == Collective::kReduceScatter ? m * b.part : 0);
      return p;
    }
    const bool parts = c == Collective::kAllGather || c == Collective::kAllToAll;
    Pattern p = counting(c, b.receive, parts ? b.part : b.receive, ranks);
    for (std::int64_t from = 0; parts && from < p.segments(); ++from) {
      p.begin_at(kShift * from + (c == Collective::kAllToAll ? 3 * m : 0));
    }
    if (!parts) p.begin_at(kShift * (c == Collective::kBroadcast ? 0 : (m + ranks - 1) % ranks));
    return p;
  }

  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::int64_t segment() const { return segment_; }  // elements
  [[nodiscard]] std::int64_t segments() const { return size_ / segment_; }
  [[nodiscard]] std::int64_t period() const { return static_cast<std::int64_t>(row_.size()); }
  // Element i.
  [[nodiscard]] int at(std::int64_t i) const {
    return row_[wrapped(first_[static_cast<std::size_t>(i / segment_)] + i % segment_)];
  }

 private:
  static constexpr std::int64_t kShift = 7;  // between members; no factor of a period
  std::vector<int> row_;
  std::vector<std::int64_t> first_;  // of each segment, in the row
  std::int64_t size_, segment_;

  Pattern(std::int64_t period, std::int64_t size, std::int64_t segment)
      : row_(static_cast<std::size_t>(period)), size_(size), segment_(segment) {}
  // 0, 1, 2 and so on, which every type holds.
  static Pattern counting(Collective c, std::int64_t size, std::int64_t segment,
                          std::int64_t ranks) {
    Pattern p(period_of(c, ranks), size, segment);
    for (std::size_t i = 0; i < p.row_.size(); ++i) p.row_[i] = static_cast<int>(i);
    return p;
  }
  void begin_at(std::int64_t place) { first_.push_back(static_cast<std::int64_t>(wrapped(place))); }
  [[nodiscard]] std::size_t wrapped(std::int64_t place) const {
    const std::int64_t rest = place % period();
    return static_cast<std::size_t>(rest < 0 ? rest + period() : rest);
  }
};

// Elements [begin, end) of a buffer.
struct Span {
  std::int64_t begin = 0, end = 0;
};

// How many elements of each segment are written one by one; the rest repeats them.
inline std::int64_t head_of(const Pattern& p) {
  constexpr std::int64_t kPeriods = 1024;
  return std::min(p.segment(), kPeriods * p.period());
}

// Fills a buffer with a pattern. write(span) sets elements one by one; copy(to, from, n) copies n
// elements within the buffer.
template <class Write, class Copy>
void fill(const Pattern& p, const Write& write, const Copy& copy) {
  for (std::int64_t begin = 0; begin < p.size(); begin += p.segment()) {
    std::int64_t done = head_of(p);  // a multiple of the period, or all
    write(Span{begin, begin + done});
    while (done < p.segment()) {
      const std::int64_t n = std::min(done, p.segment() - done);
      copy(begin + done, begin, n);
      done += n;
    }
  }
}

// What of a received buffer is looked at: all of a small one; of each segment of a large one both
// ends and some places between.
inline std::vector<Span> sampled(const Pattern& p) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20, kPlaces = 16;
  if (p.size() <= kMost) return {{0, p.size()}};
  const std::int64_t places = std::max<std::int64_t>(2, kPlaces / p.segments());
  const std::int64_t width = std::max<std::int64_t>(1, kMost / p.segments() / places);
  std::vector<Span> all;
  for (std::int64_t begin = 0; begin < p.size(); begin += p.segment()) {
    if (p.segment() <= places * width) {
      all.push_back({begin, begin + p.segment()});
      continue;
    }
    const std::int64_t last = p.segment() - width;
    for (std::int64_t i = 0; i < places; ++i) {
      const std::int64_t at = begin + last * i / (places - 1);
      all.push_back({at, at + width});
    }
  }
  return all;
}

// Whether this member receives anything: the sender of a one-way message does not.
constexpr bool receives(Collective c, bool bidirectional, std::int64_t m) {
  return c != Collective::kSendRecv || bidirectional || m == 1;
}

}  // namespace meshplan::device
