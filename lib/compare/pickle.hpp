#pragma once
// Python's pickles of plain data (dicts, lists, tuples, text, numbers): those of
// torch.cuda.memory._dump_snapshot. Nothing of a pickle is ever run: one that names a class or a
// function is refused.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace meshplan {

struct PickleNode {
  enum class Kind : std::uint8_t { kNone, kInteger, kReal, kText, kList, kMap };

  Kind kind = Kind::kNone;
  std::int64_t integer = 0;  // of flags 0 and 1
  double real = 0;
  std::string text;
  std::vector<std::uint32_t> items;  // places in the tree; of a map keys and values in turn
};

class PickleTree {
 public:
  std::vector<PickleNode> nodes;
  std::uint32_t root = 0;
  bool cut = false;  // the file breaks off: what stands before that is here

  [[nodiscard]] const PickleNode& at(std::uint32_t place) const { return nodes[place]; }
  // The value of a map's key; null where there is none.
  [[nodiscard]] const PickleNode* find(const PickleNode& map, std::string_view key) const;
};

// Protocols 2 to 5. Values that stand in several places are one node. `file` is how diagnostics
// call it. A pickle that breaks off gives what it holds; fails where that is no dict or list.
[[nodiscard]] Result<PickleTree> parse_pickle(std::string_view bytes, const std::string& file);

}  // namespace meshplan
