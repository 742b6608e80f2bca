#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/quantity.hpp"
#include "io/nccl_tests_parts.hpp"
#include "io/yaml_tree.hpp"

namespace meshplan::nccl_tests {
namespace {

using Words = std::vector<std::string_view>;

Words words_of(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  Words words;
  for (std::size_t at = 0; (at = line.find_first_not_of(kBlanks, at)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

bool is_number(std::string_view word) { return parse_real(word).ok(); }

// Launchers put a rank in front of lines ("[1,0]<stdout>:", "0: ").
std::string_view without_prefix(std::string_view line) {
  if (line.starts_with("[")) {
    const std::size_t end = line.substr(0, 33).find(">:");
    if (end != std::string_view::npos) return line.substr(end + 2);
  }
  std::size_t digits = 0;
  while (digits < line.size() && line[digits] >= '0' && line[digits] <= '9') ++digits;
  const bool labelled = digits > 0 && line.substr(digits).starts_with(": ");
  return labelled ? line.substr(digits + 2) : line;
}

// Which word of a row is what; from the line "# size count type redop root time algbw ...".
struct Columns {
  std::size_t time = 0, wrong = 0, all = 0;
  bool timestamp = false;
  bool error = false;  // old versions: the largest error in place of a count
};

// What nccl-tests up to 2.11 take for rounding (common.cu, DeltaMaxValue).
double largest_error(std::string_view type) {
  if (type == "half" || type == "bfloat16") return 1e-2;
  return type == "double" ? 1e-12 : type == "float" ? 1e-5 : 0;
}

std::optional<Columns> header_of(const Words& words) {
  if (words.size() < 6 || words[0] != "#" || words[1] != "size") return std::nullopt;
  Columns columns;
  for (std::size_t i = 2; i < words.size() && columns.time == 0; ++i) {
    if (words[i] == "time" || words[i] == "cputime") columns.time = i - 1;
  }
  if (columns.time == 0) return std::nullopt;
  columns.wrong = columns.time + 3;  // time, algbw, busbw, #wrong (error in old versions)
  columns.error = columns.wrong + 1 < words.size() && words[columns.wrong + 1] == "error";
  columns.timestamp = words.back() == "timestamp";
  columns.all = words.size() - 1 - (columns.timestamp ? 1 : 0);
  if (columns.wrong >= columns.all) return std::nullopt;  // cut off
  return columns;
}

class Reader {
 public:
  Reader(std::string file, std::optional<Collective> operation, NcclRanks ranks)
      : file_(std::move(file)), stated_(operation), stated_ranks_(ranks) {}

  void line(std::string_view text, int number) {
    line_ = without_prefix(text);
    number_ = number;
    const Words words = words_of(line_);
    if (words.empty()) return;
    if (line_.front() == '#') return comment(words);
    if (columns_ && is_number(words.front())) row(words);
  }

  Result<std::vector<NcclTestsRun>> finish() {
    close();
    if (problems_.empty() && runs_.empty()) {
      problems_.push_back(
          error_at({file_}, "no results of nccl-tests",
                   "give what all_reduce_perf and its like print, or their -J file"));
    }
    if (!problems_.empty()) return problems_;
    return std::move(runs_);
  }

 private:
  void comment(const Words& words) {
    if (line_.starts_with("# nccl-tests version ") ||
        line_.starts_with("# Collective test start") || line_.starts_with("# nThread ") ||
        line_.starts_with("# Using devices")) {
      if (columns_) close();
    }
    if (line_.starts_with("# Collective test starting: ")) name_ = std::string(words.back());
    if (line_.starts_with("# nccl-tests version ") && words.size() > 3) {
      method_ = "nccl-tests " + std::string(words[3]);
      for (const std::string_view word : words) library_version(word);
    }
    if (words.size() > 6 && words[1] == "Rank") rank(words);
    if (const std::optional<Columns> columns = header_of(words)) {
      columns_ = columns;
      header_line_ = number_;
    }
  }

  void library_version(std::string_view word) {
    constexpr std::string_view kKey = "nccl-library=";
    if (!word.starts_with(kKey)) return;
    const Result<std::int64_t> code = parse_integer(word.substr(kKey.size()));
    if (code) nccl_ = version_text(*code);
  }

  // "#  Rank  0 Group  0 Pid 1887 on worker-1 device  0 [0000:8d:00] NVIDIA H100 80GB HBM3"; old
  // versions name no group.
  void rank(const Words& words) {
    RankLine rank;
    for (std::size_t i = 3; i + 1 < words.size(); ++i) {
      if (words[i] == "Group")
        rank.group = parse_integer(words[i + 1]).ok() ? parse_integer(words[i + 1]).value() : 0;
      if (words[i] == "on") rank.host = std::string(words[i + 1]);
      if (words[i].starts_with("[") && words[i].ends_with("]")) {
        const auto at = static_cast<std::size_t>(words[i + 1].data() - line_.data());
        rank.gpu = std::string(line_.substr(at));
        while (!rank.gpu.empty() && (rank.gpu.back() == ' ' || rank.gpu.back() == '\r')) {
          rank.gpu.pop_back();
        }
        break;
      }
    }
    ranks_.push_back(std::move(rank));
  }

  // Rows may lack what their header names before the times (old versions print no redop for
  // operations that reduce nothing), and carry a date and a time of day behind everything.
  void row(const Words& words) {
    const std::size_t dated = columns_->timestamp ? 2 : 0;
    const std::size_t got = words.size() - std::min(dated, words.size());
    const std::size_t shift = columns_->all - std::min(got, columns_->all);
    if (got > columns_->all || shift > 2 || shift > std::min(columns_->time, columns_->wrong)) {
      return report("the row has " + std::to_string(got) + " columns, its header " +
                    std::to_string(columns_->all));
    }
    const std::string_view time = words[columns_->time - shift];
    const std::string_view wrong = words[columns_->wrong - shift];
    const Result<std::int64_t> bytes = parse_integer(words.front());
    const Result<double> us = parse_real(time);
    if (!bytes || *bytes < 0 || !us || *us < 0) {
      return report("the row has no size and time that can be read");
    }
    if (*bytes == 0 || *us == 0) return;  // nothing was sent: more ranks than elements
    if (const std::string why = no_measurement(*bytes, *us); !why.empty()) return report(why);
    NcclTestsRow row{Bytes{*bytes}, Seconds{*us * 1e-6}};
    const Result<double> count = parse_real(wrong);
    const double rounding = columns_->error && words.size() > 2 ? largest_error(words[2]) : 0;
    row.wrong = count && *count > rounding
                    ? static_cast<std::int64_t>(std::ceil(std::min(*count, 1e15)))
                    : 0;
    rows_.push_back(row);
  }

  void report(std::string message) {
    constexpr std::size_t kMost = 20;
    if (problems_.size() >= kMost) return;
    Diagnostic d = error_at({file_, number_, 1}, std::move(message));
    d.source_line = std::string(line_);
    problems_.push_back(std::move(d));
  }

  // From the lines that name them, or as stated where these are missing or are those of some ranks
  // only; says what is wrong, else nothing.
  std::string find_ranks(NcclTestsRun& run) {
    const std::int64_t stated = stated_ranks_.ranks;
    if (stated == 0 || static_cast<std::int64_t>(ranks_.size()) >= stated) {
      std::string wrong = describe_ranks(ranks_, run);
      if (!wrong.empty() || stated == 0 || run.ranks == stated) return wrong;
      return "its lines name " + std::to_string(run.ranks) + " ranks, not the " +
             std::to_string(stated) + " of --ranks";
    }
    run.ranks = stated;
    run.nodes = stated_ranks_.nodes;
    if (!ranks_.empty()) run.gpu = run.provenance.gpu = ranks_.front().gpu;
    return {};
  }

  // The end of one run.
  void close() {
    if (columns_ && !rows_.empty()) {
      NcclTestsRun run;
      const std::optional<Collective> named = name_.empty() ? stated_ : nccl_tests_operation(name_);
      if (!named) problems_.push_back(unknown_operation({file_, header_line_, 1}, name_));
      run.operation = named.value_or(Collective::kAllReduce);
      run.provenance.method = method_.empty() ? "nccl-tests" : method_;
      run.provenance.nccl = nccl_;
      if (const std::string wrong = find_ranks(run); !wrong.empty()) {
        const bool few = ranks_.size() < 2 && stated_ranks_.ranks == 0;
        problems_.push_back(error_at({file_, header_line_, 1}, "this run cannot be used: " + wrong,
                                     few ? "--ranks N says how many there were, --nodes N on how "
                                           "many nodes"
                                         : ""));
      }
      run.rows = std::move(rows_);
      runs_.push_back(std::move(run));
    }
    columns_.reset();
    rows_.clear();
    ranks_.clear();
    name_.clear();
  }

  std::string file_;
  std::optional<Collective> stated_;
  NcclRanks stated_ranks_;
  std::string_view line_;
  int number_ = 0, header_line_ = 0;
  std::string name_, method_, nccl_;
  std::optional<Columns> columns_;
  std::vector<RankLine> ranks_;
  std::vector<NcclTestsRow> rows_;
  std::vector<NcclTestsRun> runs_;
  Diagnostics problems_;
};

}  // namespace

Result<std::vector<NcclTestsRun>> parse_text(std::string_view text, const std::string& file,
                                             std::optional<Collective> operation,
                                             NcclRanks stated) {
  const std::string lines = normalised_lines(text);
  Reader reader(file, operation, stated);
  int number = 0;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    reader.line(std::string_view(lines).substr(at, end - at), ++number);
    at = end + 1;
  }
  return reader.finish();
}

}  // namespace meshplan::nccl_tests
