// Lists that Megatron-LM's options write as Python expressions or letters.
#include <algorithm>
#include <charconv>

#include "cost/chunks.hpp"
#include "launch/megatron_parts.hpp"

namespace meshplan {
namespace {

// "[0]*3+[1]*58": lists of numbers, repeated, joined and in parentheses.
class ListReader {
 public:
  ListReader(std::string_view text, std::size_t most) : text_(text), most_(most) {}

  std::optional<std::vector<std::int64_t>> read() {
    auto all = sum(0);
    gap();
    if (at_ < text_.size()) return std::nullopt;
    return all;
  }

 private:
  using List = std::optional<std::vector<std::int64_t>>;

  void gap() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\'' || text_[at_] == '"')) {
      ++at_;
    }
  }
  bool take(char c) {
    gap();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::optional<std::int64_t> number() {
    gap();
    std::int64_t value = 0;
    const auto [stop, failure] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (failure != std::errc{}) return std::nullopt;
    at_ = static_cast<std::size_t>(stop - text_.data());
    return value;
  }

  List sum(int depth) {
    List all = product(depth);
    while (all && take('+')) {
      const List more = product(depth);
      if (!more || all->size() + more->size() > most_) return std::nullopt;
      all->insert(all->end(), more->begin(), more->end());
    }
    return all;
  }

  List product(int depth) {
    List list = item(depth);
    while (list && take('*')) {
      const auto times = number();
      if (!times || *times < 0) return std::nullopt;
      if (!list->empty() && static_cast<std::size_t>(*times) > most_ / list->size()) {
        return std::nullopt;
      }
      std::vector<std::int64_t> repeated;
      for (std::int64_t i = 0; i < *times; ++i) {
        repeated.insert(repeated.end(), list->begin(), list->end());
      }
      list = std::move(repeated);
    }
    return list;
  }

  List item(int depth) {
    constexpr int kDeepest = 20;
    if (depth > kDeepest) return std::nullopt;
    if (take('(')) {
      List inner = sum(depth + 1);
      return inner && take(')') ? inner : std::nullopt;
    }
    if (!take('[')) return std::nullopt;
    std::vector<std::int64_t> list;
    while (!take(']')) {
      const auto value = number();
      if (!value || list.size() >= most_) return std::nullopt;
      list.push_back(*value);
      (void)take(',');
    }
    return list;
  }

  std::string_view text_;
  std::size_t most_;
  std::size_t at_ = 0;
};

}  // namespace

// megatron/training/arguments.py, moe_freq_type: a number n puts experts into every n-th layer,
// beginning with the first (core/models/gpt/gpt_layer_specs.py).
std::optional<std::vector<bool>> expert_layers(std::string_view text, std::int64_t layers) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(layers, 0));
  std::int64_t every = 0;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), every);
  if (failure == std::errc{} && stop == text.data() + text.size()) {
    if (every < 1) return std::nullopt;
    std::vector<bool> all(count);
    for (std::size_t i = 0; i < count; ++i) all[i] = i % static_cast<std::size_t>(every) == 0;
    return all;
  }
  const auto list = ListReader(text, count).read();
  if (!list || list->size() != count) return std::nullopt;
  std::vector<bool> all;
  for (const std::int64_t value : *list) all.push_back(value != 0);
  return all;
}

std::optional<PipelineLayout> read_pipeline_layout(std::string text, std::int64_t pp) {
  // Repeats multiply each other: of what they unroll to, as many letters as there may be stages.
  constexpr auto kLongest = static_cast<std::size_t>(kStages.highest);
  if (text.size() > kLongest) return std::nullopt;
  std::size_t open = 0;  // nothing is repeated before it
  for (std::size_t star = text.find('*'); star != std::string::npos; star = text.find('*', open)) {
    std::size_t end = star + 1;
    std::int64_t times = 0;
    std::from_chars(text.data() + end, text.data() + text.size(), times);
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    const bool group = star > 0 && text[star - 1] == ')';
    if (star == 0) return std::nullopt;
    open = group ? text.rfind('(', star) : star - 1;
    if (open == std::string::npos || times < 1 || times > 10'000) return std::nullopt;
    const std::string part = group ? text.substr(open + 1, star - open - 2) : text.substr(open, 1);
    if (part.size() * static_cast<std::size_t>(times) > kLongest - text.size()) {
      return std::nullopt;
    }
    std::string unrolled;
    for (std::int64_t i = 0; i < times; ++i) unrolled += part;
    text.replace(open, end - open, unrolled);
  }
  std::vector<std::int64_t> chunks(1, 0);
  for (const char c : text) {
    if (c == '|') chunks.push_back(0);
    if (c == 't') ++chunks.back();
  }
  const auto ranks = static_cast<std::size_t>(std::max<std::int64_t>(pp, 1));
  if (chunks.size() % ranks != 0) return std::nullopt;
  PipelineLayout layout;
  layout.chunks = static_cast<std::int64_t>(chunks.size() / ranks);
  layout.layers_per_rank.assign(ranks, 0);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    layout.layers_per_rank[i % ranks] += chunks[i];
    layout.layers += chunks[i];
  }
  layout.layers_per_chunk = std::move(chunks);
  return layout;
}

std::vector<std::int64_t> uneven_chunks(const Strategy& s, std::vector<std::int64_t> stated) {
  const auto ranks = static_cast<std::size_t>(s.pp);
  for (std::size_t i = 0; i < stated.size(); ++i) {
    const std::size_t rank = i % ranks;
    const auto turn = static_cast<std::int64_t>(i / ranks);
    const std::int64_t even =
        chunk_layers(s.stage_layers[rank], s.vp, turn, rank == 0, rank + 1 == ranks);
    if (even != stated[i]) return stated;
  }
  return {};
}

}  // namespace meshplan
