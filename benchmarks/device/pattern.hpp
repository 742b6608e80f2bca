#pragma once
// Known data for the check of a collective: small whole numbers, so that sums are exact in every
// type, and different at every place, so that data in the wrong place shows.
#include <cstdint>

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

// What member m adds at place i: a seventh of the places are 1, so that even a sum over a thousand
// ranks is a whole number that 8 bits of mantissa hold.
constexpr int summand(std::int64_t i, std::int64_t m) { return (i + 7 * m) % 13 < 2 ? 1 : 0; }
constexpr int letter(std::int64_t i, std::int64_t m) { return static_cast<int>((i + 7 * m) % 13); }

// Element i of member m's send buffer.
constexpr int sent(Collective c, const BufferSizes& b, std::int64_t i, std::int64_t m) {
  switch (c) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
      return summand(i, m);
    case Collective::kAllToAll:
      return letter(i % b.part + 3 * (i / b.part), m);
    case Collective::kAllGather:
    case Collective::kBroadcast:
    case Collective::kSendRecv:
      return letter(i, m);
  }
  return 0;
}

// The sum of all members' summands at place i.
constexpr int sum(std::int64_t i, std::int64_t ranks) {
  int total = 0;
  for (std::int64_t m = 0; m < ranks; ++m) total += summand(i, m);
  return total;
}

// Element i of member m's receive buffer afterwards. send-recv: data of the member before it.
constexpr int received(Collective c, const BufferSizes& b, std::int64_t i, std::int64_t m,
                       std::int64_t ranks) {
  switch (c) {
    case Collective::kAllReduce:
      return sum(i, ranks);
    case Collective::kReduceScatter:
      return sum(m * b.part + i, ranks);
    case Collective::kAllGather:
      return letter(i % b.part, i / b.part);
    case Collective::kAllToAll:
      return letter(i % b.part + 3 * m, i / b.part);
    case Collective::kBroadcast:
      return letter(i, 0);
    case Collective::kSendRecv:
      return letter(i, (m + ranks - 1) % ranks);
  }
  return 0;
}

// Whether this member receives anything: the sender of a one-way message does not.
constexpr bool receives(Collective c, bool bidirectional, std::int64_t m) {
  return c != Collective::kSendRecv || bidirectional || m == 1;
}

}  // namespace meshplan::device
