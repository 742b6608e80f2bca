#pragma once
// One value for each block of a model.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace meshplan {

// Blocks are numbered: the embedding, the distinct decoder layers (model/block_table.hpp), the
// multi-token-prediction layer, which has its number also where a model has none, and the head.
inline constexpr std::size_t kEmbeddingBlock = 0, kFirstLayerBlock = 1;
inline constexpr std::size_t kEndBlocks = 3;  // all but the decoder layers
[[nodiscard]] constexpr std::size_t mtp_block(std::size_t blocks) { return blocks - 2; }
[[nodiscard]] constexpr std::size_t head_block(std::size_t blocks) { return blocks - 1; }

// Asks for memory only beyond kInline blocks, and keeps it: the search makes and copies these in
// its inner loops.
template <class T>
class PerBlock {
 public:
  static constexpr std::size_t kInline = 8;
  static_assert(std::is_trivially_copyable_v<T> && !std::is_same_v<T, bool>);

  PerBlock() = default;
  explicit PerBlock(std::size_t blocks, const T& value = {}) { assign(blocks, value); }

  void assign(std::size_t blocks, const T& value = {}) {
    size_ = blocks;
    if (is_inline()) {
      std::fill_n(few_.begin(), size_, value);
    } else {
      many_.assign(size_, value);
    }
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] T* data() { return is_inline() ? few_.data() : many_.data(); }
  [[nodiscard]] const T* data() const { return is_inline() ? few_.data() : many_.data(); }
  [[nodiscard]] T& operator[](std::size_t block) { return data()[block]; }
  [[nodiscard]] const T& operator[](std::size_t block) const { return data()[block]; }
  [[nodiscard]] T* begin() { return data(); }
  [[nodiscard]] T* end() { return data() + size_; }
  [[nodiscard]] const T* begin() const { return data(); }
  [[nodiscard]] const T* end() const { return data() + size_; }

  [[nodiscard]] T& embedding() { return (*this)[kEmbeddingBlock]; }
  [[nodiscard]] const T& embedding() const { return (*this)[kEmbeddingBlock]; }
  [[nodiscard]] T& mtp() { return (*this)[mtp_block(size_)]; }
  [[nodiscard]] const T& mtp() const { return (*this)[mtp_block(size_)]; }
  [[nodiscard]] T& head() { return (*this)[head_block(size_)]; }
  [[nodiscard]] const T& head() const { return (*this)[head_block(size_)]; }

  friend bool operator==(const PerBlock& a, const PerBlock& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  [[nodiscard]] bool is_inline() const { return size_ <= kInline; }

  std::size_t size_ = 0;
  std::array<T, kInline> few_{};
  std::vector<T> many_;
};

// How many of each block something holds.
using BlockCounts = PerBlock<std::int64_t>;

}  // namespace meshplan
