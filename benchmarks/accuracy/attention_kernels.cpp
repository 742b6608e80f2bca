#include "attention_kernels.hpp"

#include <algorithm>
#include <regex>
#include <string>

#include "framework_rows.hpp"
#include "words.hpp"

namespace meshplan::accuracy {
namespace {

int year_and_month(const std::smatch& match) {
  return std::stoi(match[1].str()) * 100 + std::stoi(match[2].str());
}

// The newest of the releases that a text names; 0: none.
int newest_release(const std::string& text, const std::regex& pattern) {
  int newest = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
    newest = std::max(newest, year_and_month(*it));
  return newest;
}

// Transformer Engine runs FlashAttention-1 until July 2023 (setup.py of v0.10: flash-attn<=1.0.7;
// faefacb80, 2023-07-18, knows the second version), and has the package go before cuDNN until
// December (pytorch/attention.py; 32db39288, 2023-12-07, "Select FusedAttention on sm90").
constexpr int kFirstFlash2 = 2308, kFirstCudnn = 2312;

}  // namespace

int software_date(const Source& source, const Run& run) {
  static const std::regex release(R"((?:\bRelease |ngc)(2\d)\.(0[1-9]|1[0-2])(?!\d))");
  const std::string said = run.notes + " " + run.where;
  if (const int named = newest_release(said, release); named > 0) return named;
  // Round n.0 of MLPerf Training was published in June of 2020 + n, n.1 in November, with software
  // of two months before.
  static const std::regex round(R"(training_results_v(\d)\.([01]))");
  if (std::smatch match; std::regex_search(said, match, round)) {
    return (20 + std::stoi(match[1].str())) * 100 + (match[2].str() == "0" ? 4 : 9);
  }
  static const std::regex number(R"(\b(2\d)\.(0[1-9]|1[0-2])\b)");
  return newest_release(source.title, number);
}

std::optional<AttentionKernel> attention_kernel_of(const Source& source, const Run& run) {
  const std::string& text = run.attention_impl;
  if (has_any(text, {"flash_attentionv1", "FlashAttention-1"})) return AttentionKernel::kFlash1;
  if (has_any(text,
              {"flash_attention2", "FlashAttention-2", "flash attention v2", "flash attention 2"}))
    return AttentionKernel::kFlash2;
  // not AMD's library
  if (has_word(text, "Triton") && !has_word(text, "AOTriton")) return AttentionKernel::kTriton;
  const int date = software_date(source, run);
  if (!has_word(text, "TransformerEngine") || date == 0) return std::nullopt;
  if (date < kFirstFlash2) return AttentionKernel::kFlash1;
  if (date < kFirstCudnn) return AttentionKernel::kFlash2;
  const FrameworkRow* row = framework_row(source);
  const bool off = row != nullptr && date >= row->cudnn_off.from && date <= row->cudnn_off.to;
  return off ? std::optional(AttentionKernel::kFlash2) : std::nullopt;
}

}  // namespace meshplan::accuracy
