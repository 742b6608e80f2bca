#include "schedule/building_block.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

#include "base/check.hpp"
#include "base/units.hpp"
#include "schedule/orders.hpp"

namespace meshplan {
namespace {

constexpr std::int64_t kInterval = 6;  // three passes of two chunks

// What a microbatch does on a rank. Each waits for the one before it there or on a neighbour.
enum Pass : std::int32_t { kForward0, kForward1, kInput1, kInput0, kWeight1, kWeight0, kPasses };

bool is_forward(std::int32_t pass) { return pass <= kForward1; }
bool is_weight(std::int32_t pass) { return pass >= kWeight1; }

struct Cell {
  std::int32_t pass = kPasses;  // none
  std::int32_t microbatch = 0;
  [[nodiscard]] bool is_free() const { return pass == kPasses; }
};

// All ranks' passes in slots of equal length.
class SlotTable {
 public:
  SlotTable(std::int64_t pp, std::int64_t microbatches,
            BuildingBlock (*block)(std::int64_t pp, std::int64_t rank))
      : pp_(pp),
        microbatches_(microbatches),
        slots_(slots_needed(block)),
        cells_(index(pp * slots_)),
        held_(index(pp * slots_)),
        start_(index(pp * microbatches * kPasses)) {
    for (std::int64_t r = 0; r < pp_; ++r) {
      repeat(r, block(pp, r));
      fill_weights(r);
      count_held(r);
    }
    most_held_ = *std::max_element(held_.begin(), held_.end());
  }

  // Warm-up: until the first backward reaches the first rank. Cool-down: from the last microbatch's
  // entry on. In between the blocks stay as they are, so that every microbatch does the same.
  void compress() {
    const std::int64_t warm_until = start(0, kInput0, 0);
    const std::int64_t cool_from = start(0, kForward0, microbatches_ - 1);
    std::vector<std::tuple<std::int64_t, std::int64_t, std::int32_t, std::int64_t>> passes;
    for (std::int64_t r = 0; r < pp_; ++r) {
      for (std::int32_t pass = 0; pass < kPasses; ++pass) {
        for (std::int64_t j = 0; j < microbatches_; ++j) {
          const std::int64_t at = start(r, pass, j);
          if (at <= warm_until || at >= cool_from) passes.emplace_back(at, r, pass, j);
        }
      }
    }
    std::sort(passes.begin(), passes.end());
    for (const auto& [at, r, pass, j] : passes) move_forward(r, pass, j);
  }

  [[nodiscard]] TaskOrder order(std::int64_t rank) const {
    constexpr std::array kKinds{TaskKind::kForward,        TaskKind::kForward,
                                TaskKind::kBackwardInput,  TaskKind::kBackwardInput,
                                TaskKind::kBackwardWeight, TaskKind::kBackwardWeight};
    constexpr std::array<std::int64_t, kPasses> kLocalChunk{0, 1, 1, 0, 1, 0};
    const std::array<std::int64_t, 2> chunks{rank, 2 * pp_ - 1 - rank};
    TaskOrder order;
    order.reserve(index(microbatches_ * kPasses));
    for (std::int64_t slot = 0; slot < slots_; ++slot) {
      const Cell& c = cells_[index(rank * slots_ + slot)];
      if (c.is_free()) continue;
      const auto pass = index(c.pass);
      order.push_back(make_task(kKinds[pass], chunks[index(kLocalChunk[pass])], c.microbatch));
    }
    return order;
  }

 private:
  [[nodiscard]] std::int64_t slots_needed(BuildingBlock (*block)(std::int64_t,
                                                                 std::int64_t)) const {
    std::int64_t last = 0;
    for (std::int64_t r = 0; r < pp_; ++r) last = std::max(last, block(pp_, r)[kInput0]);
    return last + kInterval * microbatches_ + 2 * microbatches_;  // and what is left of the weights
  }

  Cell& cell(std::int64_t r, std::int64_t slot) { return cells_[index(r * slots_ + slot)]; }
  std::int32_t& held(std::int64_t r, std::int64_t slot) { return held_[index(r * slots_ + slot)]; }
  std::int64_t& start(std::int64_t r, std::int32_t pass, std::int64_t microbatch) {
    return start_[index((r * kPasses + pass) * microbatches_ + microbatch)];
  }
  void put(std::int64_t r, const Cell& c, std::int64_t slot) {
    cell(r, slot) = c;
    start(r, c.pass, c.microbatch) = slot;
  }

  void repeat(std::int64_t r, const BuildingBlock& block) {
    for (std::int32_t pass = kForward0; pass <= kInput0; ++pass) {
      for (std::int64_t j = 0; j < microbatches_; ++j) {
        const std::int64_t slot = block[index(pass)] + kInterval * j;
        PLAN_CHECK(cell(r, slot).is_free());
        put(r, {pass, static_cast<std::int32_t>(j)}, slot);
      }
    }
  }

  void fill_weights(std::int64_t r) {
    std::vector<Cell> waiting;
    std::size_t next = 0;
    for (std::int64_t slot = 0; slot < slots_; ++slot) {
      const Cell c = cell(r, slot);
      if (c.is_free()) {
        if (next < waiting.size()) put(r, waiting[next++], slot);
      } else if (!is_forward(c.pass)) {
        waiting.push_back({c.pass + 2, c.microbatch});
      }
    }
    PLAN_CHECK(next == waiting.size());
  }

  void count_held(std::int64_t r) {
    std::int32_t now = 0;
    for (std::int64_t slot = 0; slot < slots_; ++slot) {
      const Cell& c = cell(r, slot);
      if (!c.is_free()) now += is_forward(c.pass) ? 1 : is_weight(c.pass) ? -1 : 0;
      held(r, slot) = now;
    }
  }

  // The first slot in which the input of a pass is there. Passes of one kind keep their order.
  std::int64_t earliest(std::int64_t r, std::int32_t pass, std::int64_t j) {
    std::int64_t before = -1;
    const auto after = [&](std::int64_t rank, std::int32_t of) {
      before = std::max(before, start(rank, of, j));
    };
    const bool down = pass == kForward0 || pass == kInput1;  // from the first rank to the last
    if (is_weight(pass)) {
      after(r, pass - 2);
    } else if (down ? r > 0 : r + 1 < pp_) {
      after(down ? r - 1 : r + 1, pass);
    } else if (pass != kForward0) {
      after(r, pass - 1);
    }
    if (j > 0) before = std::max(before, start(r, pass, j - 1));
    return before + 1;
  }

  // An input gradient may take the slot of a weight gradient, which waits as long as memory lets
  // it: others need the one and nothing needs the other.
  void move_forward(std::int64_t r, std::int32_t pass, std::int64_t j) {
    const std::int64_t now = start(r, pass, j);
    const std::int64_t from = earliest(r, pass, j);
    std::int64_t roomy = now;  // from here on there is room for one activation more
    while (roomy > from && held(r, roomy - 1) < most_held_) --roomy;
    for (std::int64_t slot = is_forward(pass) ? roomy : from; slot < now; ++slot) {
      const Cell other = cell(r, slot);
      const bool gives_way = !other.is_free() && is_weight(other.pass) && slot >= roomy &&
                             !is_forward(pass) && !is_weight(pass);
      if (!other.is_free() && !gives_way) continue;
      cell(r, now) = {};
      put(r, {pass, static_cast<std::int32_t>(j)}, slot);
      if (is_forward(pass)) hold(r, slot, now, 1);
      if (is_weight(pass)) hold(r, slot, now, -1);
      if (gives_way) {
        std::int64_t later = slot + 1;
        while (!cell(r, later).is_free()) ++later;
        put(r, other, later);
        hold(r, slot, later, 1);
      }
      return;
    }
  }

  void hold(std::int64_t r, std::int64_t begin, std::int64_t end, std::int32_t more) {
    for (std::int64_t slot = begin; slot < end; ++slot) held(r, slot) += more;
  }

  std::int64_t pp_, microbatches_, slots_;
  std::vector<Cell> cells_;          // by rank and slot
  std::vector<std::int32_t> held_;   // activations of a chunk and a microbatch, likewise
  std::vector<std::int64_t> start_;  // by rank, pass and microbatch
  std::int32_t most_held_ = 0;
};

}  // namespace

TaskOrder building_block_order(const PipelineShape& s, std::int64_t rank,
                               BuildingBlock (*block)(std::int64_t pp, std::int64_t rank)) {
  // The ranks are asked for one after the other, and their slots depend on each other.
  struct Known {
    BuildingBlock (*block)(std::int64_t, std::int64_t) = nullptr;
    std::int64_t pp = 0, microbatches = 0;
    std::vector<TaskOrder> ranks;
  };
  thread_local Known known;
  if (known.block != block || known.pp != s.pp || known.microbatches != s.microbatches) {
    SlotTable table(s.pp, s.microbatches, block);
    table.compress();
    known = {block, s.pp, s.microbatches, {}};
    for (std::int64_t r = 0; r < s.pp; ++r) known.ranks.push_back(table.order(r));
  }
  return known.ranks[index(rank)];
}

}  // namespace meshplan
