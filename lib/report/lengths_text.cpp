#include "report/lengths_text.hpp"

#include <algorithm>
#include <cmath>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "study/length_spread.hpp"

namespace meshplan {
namespace {

std::string labelled(const std::string& label, const std::string& value,
                     const TextOptions& options) {
  constexpr std::size_t kLabel = 18;
  return paragraph(label + std::string(kLabel - std::min(kLabel, label.size()), ' '), value,
                   options);
}

std::string counted(std::int64_t n, const std::string& one, const std::string& many) {
  return with_thousands(n) + " " + (n == 1 ? one : many);
}

std::string documents_text(const LengthSpec& lengths, const LengthSpread& spread,
                           std::int64_t seq_len) {
  std::string text = printable(lengths.name) + ": mean " + rounded(mean_length(lengths)) +
                     " tokens, median " + rounded(length_quantile(lengths, 0.5)) + ", 99 % up to " +
                     rounded(length_quantile(lengths, 0.99)) + ", longest " +
                     rounded(longest(lengths));
  if (spread.cut > 0) {
    text += "; " + human_percent(spread.cut) + " of the tokens are beyond " +
            with_thousands(seq_len) + " and cut off";
  }
  return text;
}

std::string packing_text(const LengthSpread& spread, const Strategy& s) {
  const RowStatistics& row = spread.row;
  const std::string wasted = human_percent(row.padding()) + " of the computed tokens are padding";
  switch (s.packing) {
    case Packing::kNone:
      return "none: a row is one document, padded to the longest of its microbatch; " + wasted;
    case Packing::kPad:
      return "pad: a row is one document, padded to " + with_thousands(s.seq_len) + " tokens; " +
             wasted;
    case Packing::kPack:
    case Packing::kBalanced:
      break;
  }
  const double full = static_cast<double>(s.seq_len) * static_cast<double>(s.seq_len);
  return std::string(name_of(s.packing)) + ": " + fixed(row.documents, 1) +
         " documents in a row; " + wasted + "; attention within documents computes " +
         human_percent(s.flash_attention ? row.squares / full : 1) + " of a row's pairs";
}

std::string waiting_text(const LengthSpread& spread, const PlanCost& p) {
  const Strategy& s = p.strategy;
  const DealtRows dealt = dealt_rows(s);
  if (dealt.ranks == 1) return "one data-parallel rank: none waits for another";
  const std::string where = dealt.together > 1 ? "in every microbatch" : "at the end of the step";
  return human_percent(p.time.uneven / p.step_time) +
         " of the step: " + with_thousands(dealt.ranks) + " data-parallel ranks meet " + where +
         ", the heaviest computes " + fixed(spread.uneven.tokens.mean, 2) +
         " times the mean tokens and " + fixed(spread.uneven.squares.mean, 2) +
         " times the mean pairs of attention";
}

std::string steps_text(const LengthSpread& spread, const PlanCost& p) {
  std::string text = "median " + human_time(spread.step_median) + ", 99th percentile " +
                     human_time(spread.step_p99);
  if (p.strategy.packing == Packing::kNone) {
    text += "; memory " + human_bytes(spread.peak_median) + ", 99th percentile " +
            human_bytes(spread.peak_p99) + ", with the longest document " +
            human_bytes(p.memory().peak) + ", which is what must fit";
  } else {
    text += "; memory is the same in each";
  }
  if (p.strategy.pp > 1) text += "; stages are taken to pass microbatches on as if all were alike";
  return text;
}

std::string choices_text(const std::vector<PackingChoice>& all) {
  std::string text = "tokens of documents a second, padding, memory: ";
  bool first = true;
  for (const PackingChoice& choice : all) {
    text += (first ? "" : "; ") + std::string(name_of(choice.packing)) + " " +
            rounded(choice.tokens_per_s) + ", " + human_percent(choice.padding) + ", " +
            human_bytes(choice.peak);
    first = false;
  }
  return text;
}

}  // namespace

std::string workload_text(const ModelSpec& m, const Strategy& s) {
  const double tokens = real_tokens(m, s);
  if (!m.lengths) {
    return counted(s.global_batch, "sequence of ", "sequences of ") + with_thousands(s.seq_len) +
           " tokens, " + human_count(tokens) + " tokens";
  }
  const bool packed = s.packing == Packing::kPack || s.packing == Packing::kBalanced;
  return counted(s.global_batch, packed ? "packed row of " : "document of up to ",
                 packed ? "packed rows of " : "documents of up to ") +
         with_thousands(s.seq_len) + " tokens, " + human_count(tokens) + " tokens of documents";
}

std::string lengths_text(const ModelSpec& m, const ClusterSpec& c, const PlanCost& p,
                         const TextOptions& options) {
  const std::optional<LengthSpread> spread = length_spread(m, c, p);
  if (!spread) return {};
  return labelled("Documents", documents_text(*m.lengths, *spread, p.strategy.seq_len), options) +
         labelled("Packing", packing_text(*spread, p.strategy), options) +
         labelled("Waiting", waiting_text(*spread, p), options) +
         labelled("Steps", steps_text(*spread, p), options) +
         labelled("Otherwise packed", choices_text(packing_choices(m, c, p)), options);
}

}  // namespace meshplan
