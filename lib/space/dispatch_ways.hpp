#pragma once
// Ways in which tokens travel to their experts: those that a space holds beside the stated one, and
// what overlapped dispatch asks of the keys that the space's lists choose one by one.
#include <string>
#include <vector>

#include "space/partial_strategy.hpp"
#include "spec/cluster.hpp"
#include "spec/limits.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Each of `bases` with the other dispatcher, where proxies post the messages of the flexible one
// ([F-EP-11]): there neither is always the faster, as what large messages gain, small ones lose.
// Nothing elsewhere, and where the limits state a dispatcher.
[[nodiscard]] std::vector<Strategy> with_other_dispatcher(const std::vector<Strategy>& bases,
                                                          const ModelSpec& m, const ClusterSpec& c,
                                                          const std::vector<Limit>& limits);

// Each of `bases` with tokens sent beside another microbatch's layers, which Megatron-Core can: the
// faster where links are slow, for some memory and host time. Nothing where the limits say it.
// Those that are of no use to a space are among them.
[[nodiscard]] std::vector<Strategy> with_overlapped_dispatch(const std::vector<Strategy>& bases,
                                                             const ModelSpec& m,
                                                             const std::vector<Limit>& limits);

// The keys of overlapped dispatch, which are legal or not with others of a space.
void set_overlapped_dispatch(const Strategy& from, Strategy& s);

// Whether overlapped dispatch allows the choice at all; the rules have the last word.
[[nodiscard]] bool may_overlap(const MemoryOption& option);

// Which keys of `s` are judged. The others are neutral, and are set to what such dispatch allows.
struct JudgedKeys {
  bool ep = false, schedule = false;
};
// The rule that `s` breaks with the dispatch of `base`, where that is overlapped.
[[nodiscard]] std::string broken_overlap(const Strategy& base, Strategy s, JudgedKeys judged,
                                         const ModelSpec& m, const ClusterSpec& c);

}  // namespace meshplan
