#include "compare/pickle.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

namespace meshplan {
namespace {

constexpr std::size_t kMostNodes = 60'000'000;

// Opcodes: CPython Lib/pickle.py and Modules/_pickle.c.
class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes) : bytes_(bytes) {}

  // The reason of a failure; empty where the pickle is whole.
  std::string read() {
    while (problem_.empty() && !done_) {
      const std::optional<std::uint8_t> op = byte();
      if (op) step(*op);
      if (!op || cut_) return fold() ? "" : "the file breaks off";
      if (tree_.nodes.size() > kMostNodes) return "more than 60 million values";
    }
    return problem_;
  }
  PickleTree take() {
    tree_.root = cut_ ? stack_.front() : stack_.back();
    tree_.cut = cut_;
    return std::move(tree_);
  }

 private:
  using Kind = PickleNode::Kind;

  std::optional<std::uint8_t> byte() {
    if (at_ >= bytes_.size()) return std::nullopt;
    return static_cast<std::uint8_t>(bytes_[at_++]);
  }
  // A number of so many bytes, the least significant first; sets the problem where it is cut off.
  std::uint64_t number(std::size_t size) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const std::optional<std::uint8_t> next = byte();
      if (!next) cut_ = true;
      value |= static_cast<std::uint64_t>(next.value_or(0)) << (8 * i);
    }
    return value;
  }
  std::string_view bytes(std::uint64_t size) {
    if (size > bytes_.size() - at_) {
      cut_ = true;
      return {};
    }
    const std::string_view part = bytes_.substr(at_, size);
    at_ += size;
    return part;
  }

  void push(PickleNode node) {
    tree_.nodes.push_back(std::move(node));
    stack_.push_back(static_cast<std::uint32_t>(tree_.nodes.size() - 1));
  }
  void push_integer(std::int64_t value) {
    PickleNode node;
    node.kind = Kind::kInteger;
    node.integer = value;
    push(std::move(node));
  }
  void push_text(std::string_view text) {
    PickleNode node;
    node.kind = Kind::kText;
    node.text = text;
    push(std::move(node));
  }
  void push_empty(Kind kind) {
    PickleNode node;
    node.kind = kind;
    push(std::move(node));
  }
  void push_long(std::uint64_t size) {
    const std::string_view part = bytes(size);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(part.size(), 8); ++i) {
      value |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(part[i])) << (8 * i);
    }
    const bool negative = !part.empty() && (static_cast<std::uint8_t>(part.back()) & 0x80) != 0;
    if (negative && part.size() < 8) value |= ~std::uint64_t{0} << (8 * part.size());
    push_integer(static_cast<std::int64_t>(value));
  }

  // What was pushed since the last mark, which goes.
  std::vector<std::uint32_t> since_mark() {
    if (marks_.empty()) {
      problem_ = "is no pickle: a list ends that did not begin";
      return {};
    }
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    marks_.pop_back();
    std::vector<std::uint32_t> items(from, stack_.end());
    stack_.erase(from, stack_.end());
    return items;
  }
  std::vector<std::uint32_t> last(std::size_t count) {
    const std::size_t below = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() < below + count) {
      problem_ = "is no pickle: a value is missing";
      return {};
    }
    const auto from = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<std::uint32_t> items(from, stack_.end());
    stack_.erase(from, stack_.end());
    return items;
  }
  void add_to_top(Kind kind, const std::vector<std::uint32_t>& items) {
    if (!problem_.empty()) return;
    if (stack_.empty() || tree_.nodes[stack_.back()].kind != kind ||
        (kind == Kind::kMap && items.size() % 2 != 0)) {
      problem_ = "is no pickle: items of what is no list or dict";
      return;
    }
    std::vector<std::uint32_t>& to = tree_.nodes[stack_.back()].items;
    to.insert(to.end(), items.begin(), items.end());
  }
  void push_tuple(std::vector<std::uint32_t> items) {
    if (!problem_.empty()) return;
    PickleNode node;
    node.kind = Kind::kList;
    node.items = std::move(items);
    push(std::move(node));
  }

  // Lists and dicts that were still being filled take what there was for them, the innermost first.
  // A value that stands alone (a key without its value, the beginning of a tuple) is left out.
  bool fold() {
    cut_ = true;
    while (!marks_.empty()) {
      std::vector<std::uint32_t> items = since_mark();
      if (stack_.empty()) return false;
      PickleNode& to = tree_.nodes[stack_.back()];
      if (to.kind == Kind::kMap) items.resize(items.size() / 2 * 2);
      if (to.kind != Kind::kMap && to.kind != Kind::kList) continue;
      to.items.insert(to.items.end(), items.begin(), items.end());
    }
    const Kind root = stack_.empty() ? Kind::kNone : tree_.nodes[stack_.front()].kind;
    return root == Kind::kMap || root == Kind::kList;
  }

  void remember(std::uint64_t place) {
    if (stack_.empty() || place > kMostNodes) {
      problem_ = "is no pickle: nothing to remember";
      return;
    }
    if (memo_.size() <= place) memo_.resize(std::max<std::size_t>(place + 1, memo_.size() * 3 / 2));
    memo_[place] = stack_.back() + 1;
    remembered_ = std::max<std::uint64_t>(remembered_, place + 1);
  }
  void recall(std::uint64_t place) {
    if (place >= memo_.size() || memo_[place] == 0) {
      problem_ = "is no pickle: a value is used before it is there";
      return;
    }
    stack_.push_back(memo_[place] - 1);
  }

  void step(std::uint8_t op);
  bool step_container(std::uint8_t op);

  std::string_view bytes_;
  std::size_t at_ = 0;
  bool done_ = false, cut_ = false;
  std::string problem_;
  PickleTree tree_;
  std::vector<std::uint32_t> stack_, memo_;
  std::uint64_t remembered_ = 0;
  std::vector<std::size_t> marks_;
};

bool PickleReader::step_container(std::uint8_t op) {
  switch (op) {
    case '(':
      marks_.push_back(stack_.size());
      return true;
    case '}':
      push_empty(Kind::kMap);
      return true;
    case ']':
    case ')':
      push_empty(Kind::kList);
      return true;
    case 'a':
      add_to_top(Kind::kList, last(1));
      return true;
    case 'e':
      add_to_top(Kind::kList, since_mark());
      return true;
    case 's':
      add_to_top(Kind::kMap, last(2));
      return true;
    case 'u':
      add_to_top(Kind::kMap, since_mark());
      return true;
    case 't':
      push_tuple(since_mark());
      return true;
    case 0x85:
    case 0x86:
    case 0x87:
      push_tuple(last(op - 0x84U));
      return true;
    default:
      return false;
  }
}

void PickleReader::step(std::uint8_t op) {
  if (step_container(op)) return;
  switch (op) {
    case 0x80:  // protocol
      (void)number(1);
      return;
    case 0x95:  // frame
      (void)number(8);
      return;
    case 'N':
      push({});
      return;
    case 0x88:
    case 0x89:
      push_integer(op == 0x88 ? 1 : 0);
      return;
    case 'J':
      push_integer(static_cast<std::int32_t>(number(4)));
      return;
    case 'K':
      push_integer(static_cast<std::int64_t>(number(1)));
      return;
    case 'M':
      push_integer(static_cast<std::int64_t>(number(2)));
      return;
    case 0x8a:
      push_long(number(1));
      return;
    case 0x8b:
      push_long(number(4));
      return;
    case 'G': {  // the most significant byte first
      PickleNode node;
      node.kind = Kind::kReal;
      std::uint64_t bits = 0;
      for (const char c : bytes(8)) bits = bits << 8 | static_cast<std::uint8_t>(c);
      node.real = std::bit_cast<double>(bits);
      push(std::move(node));
      return;
    }
    case 0x8c:
    case 'C':
      push_text(bytes(number(1)));
      return;
    case 'X':
    case 'B':
      push_text(bytes(number(4)));
      return;
    case 0x8d:
      push_text(bytes(number(8)));
      return;
    case 'q':
      remember(number(1));
      return;
    case 'r':
      remember(number(4));
      return;
    case 0x94:
      remember(remembered_);
      return;
    case 'h':
      recall(number(1));
      return;
    case 'j':
      recall(number(4));
      return;
    case '.':
      done_ = true;
      if (stack_.empty()) problem_ = "is no pickle: it is empty";
      return;
    default:
      problem_ = "holds more than plain data (opcode " + std::to_string(op) + " at byte " +
                 std::to_string(at_ - 1) + "), which is never run";
  }
}

}  // namespace

const PickleNode* PickleTree::find(const PickleNode& map, std::string_view key) const {
  if (map.kind != PickleNode::Kind::kMap) return nullptr;
  for (std::size_t i = 0; i + 1 < map.items.size(); i += 2) {
    const PickleNode& name = nodes[map.items[i]];
    if (name.kind == PickleNode::Kind::kText && name.text == key) return &nodes[map.items[i + 1]];
  }
  return nullptr;
}

Result<PickleTree> parse_pickle(std::string_view bytes, const std::string& file) {
  PickleReader reader(bytes);
  const std::string problem = reader.read();
  if (!problem.empty()) {
    return error_at({file}, problem, "torch.cuda.memory._dump_snapshot writes what can be read");
  }
  return reader.take();
}

}  // namespace meshplan
