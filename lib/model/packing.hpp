#pragma once
// What the rows of a microbatch hold of documents of uneven length.
#include <cstdint>
#include <vector>

#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Of one row, which is one of the micro_batch sequences; means over many rows. In tokens, or pairs
// of tokens.
struct RowStatistics {
  double documents = 1;
  double real = 0;          // of documents
  double computed = 0;      // with padding
  double squares = 0;       // sum of the squares of what attention computes on its own
  double real_squares = 0;  // of the documents alone

  // A document of this length, as often as the row has tokens for it, has as many pairs a token.
  [[nodiscard]] double attended() const { return squares / computed; }
  [[nodiscard]] double real_length() const { return real_squares / real; }
  [[nodiscard]] double padding() const { return 1 - real / computed; }
  bool operator==(const RowStatistics&) const = default;
};

// A value and how often it occurs.
struct Weighted {
  double value = 0, share = 0;
};

// Of microbatches: the sums over their rows, each by itself (for packing none the padded lengths).
struct RowVariety {
  std::vector<Weighted> tokens;   // computed, of a microbatch
  std::vector<Weighted> squares;  // of a row; of a microbatch where packing is none
};

// [F-LEN-2] packing pad: n documents make n rows of S tokens, n S^2 pairs. none: rows as long as
// the longest of their microbatch's b documents, the largest of b independent ones. pack, balanced:
// the documents, at evenly spaced quantiles of the lengths, go into rows of S by best fit, longest
// first (Johnson et al. 1974, SIAM J. Comput. 3(4); TRL's packing "bfd", axolotl's and
// Megatron-Bridge's first fit fill as well), and pairs are those within documents. Documents longer
// than S are cut off. S = seq_len. Nothing of it is random.
[[nodiscard]] RowStatistics row_statistics(const LengthSpec& lengths, Packing packing,
                                           std::int64_t seq_len, std::int64_t micro_batch);
[[nodiscard]] RowVariety row_variety(const LengthSpec& lengths, Packing packing,
                                     std::int64_t seq_len, std::int64_t micro_batch);

// [F-MEM-15] Expected sum of the records in an endless series of microbatches of independent
// lengths (each longer than all before it), over the longest: sum of v p(v) / P(length >= v) over
// the lengths v, which is how often v comes before anything longer (Arnold, Balakrishnan and
// Nagaraja 1998, Records, ch. 2). 1 where all are as long.
[[nodiscard]] double record_growth(const LengthSpec& lengths, Packing packing, std::int64_t seq_len,
                                   std::int64_t micro_batch);

// Rows that best fit makes, each the lengths of its documents.
[[nodiscard]] std::vector<std::vector<std::int64_t>> packed_rows(const LengthSpec& lengths,
                                                                 std::int64_t seq_len);

// [F-LEN-3] Work of the busiest of c context ranks over the mean, where each has two of 2c equal
// chunks of a packed row, as far from its middle, and computes what their tokens see of their own
// documents (Llama 3, 2407.21783 sec. 3.3.2; WLB-LLM, 2503.17924 sec. 3): mean over rows.
[[nodiscard]] double chunk_imbalance(const LengthSpec& lengths, std::int64_t seq_len,
                                     std::int64_t cp);

// Tokens of documents in a step.
[[nodiscard]] double real_tokens(const ModelSpec& m, const Strategy& s);
// Length of documents that have as many pairs a token as those of a step; seq_len of full
// sequences.
[[nodiscard]] std::int64_t document_length(const ModelSpec& m, const Strategy& s);
// With padding.
[[nodiscard]] double computed_tokens(const ModelSpec& m, const Strategy& s);

}  // namespace meshplan
