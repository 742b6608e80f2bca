#include "io/log_timers.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/quantity.hpp"
#include "io/log_lines.hpp"

namespace meshplan {
namespace {

constexpr std::size_t kMostTimers = 1000;  // more are no timers
constexpr double kLongest = 1e9;           // ms

struct Reports {
  std::vector<double> least, most;  // ms
};

class TimerReader {
 public:
  void read(std::string_view line) {
    if (line.find("time across ranks (ms)") != std::string_view::npos) {
      inside_ = line.find("(min, max)") != std::string_view::npos;
      return;
    }
    if (const std::size_t at = line.find("time (ms) |"); at != std::string_view::npos) {
      read_row(line.substr(at + 9));
    } else if (inside_) {
      inside_ = read_range(line);
    }
  }

  [[nodiscard]] std::vector<LogTimer> timers() const {
    std::vector<LogTimer> all;
    for (const std::string& name : order_) {
      const Reports& r = reports_.at(name);
      const std::size_t count = r.least.size();
      const std::size_t warm_up =
          count < 2 ? 0
                    : std::clamp<std::size_t>(count / 5, 1, std::min<std::size_t>(20, count - 1));
      all.push_back({name, median(r.least, warm_up), median(r.most, warm_up),
                     static_cast<std::int64_t>(count - warm_up)});
    }
    return all;
  }

 private:
  static Seconds median(const std::vector<double>& all, std::size_t from) {
    std::vector<double> steady(all.begin() + static_cast<std::ptrdiff_t>(from), all.end());
    std::sort(steady.begin(), steady.end());
    const std::size_t middle = steady.size() / 2;
    const double value =
        steady.size() % 2 == 1 ? steady[middle] : (steady[middle - 1] + steady[middle]) / 2;
    return Seconds{value * 1e-3};
  }

  static std::optional<double> milliseconds(std::string_view text) {
    const std::optional<double> value = number_after(text, "");
    return value && *value >= 0 && *value < kLongest ? value : std::nullopt;
  }

  void add(std::string_view name, double least, double most) {
    const std::size_t first = name.find_first_not_of(" \t");
    if (first == std::string_view::npos) return;
    const std::string key(name.substr(first, name.find_last_not_of(" \t.") - first + 1));
    if (key.empty() || (reports_.size() >= kMostTimers && !reports_.contains(key))) return;
    if (!reports_.contains(key)) order_.push_back(key);
    Reports& r = reports_[key];
    r.least.push_back(std::min(least, most));
    r.most.push_back(std::max(least, most));
  }

  // " | forward: 27.41 | backward: 73.44"
  void read_row(std::string_view row) {
    while (!row.empty()) {
      const std::size_t bar = std::min(row.find('|'), row.size());
      const std::string_view cell = row.substr(0, bar);
      const std::size_t colon = cell.find(':');
      if (colon != std::string_view::npos) {
        const auto value = milliseconds(cell.substr(colon + 1));
        if (value) add(cell.substr(0, colon), *value, *value);
      }
      row.remove_prefix(std::min(bar + 1, row.size()));
    }
  }

  // "    forward-compute ................................: (1234.56, 1240.00)"
  bool read_range(std::string_view line) {
    const std::size_t colon = line.find(": ("), comma = line.find(", ", colon);
    if (colon == std::string_view::npos || comma == std::string_view::npos) return false;
    const auto least = milliseconds(line.substr(colon + 3, comma - colon - 3));
    const auto most = milliseconds(line.substr(comma + 2));
    if (!least || !most) return false;
    std::string_view name = line.substr(0, line.find(" .."));
    // What starts the processes may put a rank before every line: "[default0]:".
    const std::size_t blank = name.find_last_of(" \t");
    add(blank == std::string_view::npos ? name : name.substr(blank), *least, *most);
    return true;
  }

  bool inside_ = false;
  std::map<std::string, Reports, std::less<>> reports_;
  std::vector<std::string> order_;
};

}  // namespace

std::vector<LogTimer> parse_log_timers(std::string_view text) {
  const std::string plain = without_colours(text);
  TimerReader reader;
  for (const LogLine& line : log_lines(plain)) reader.read(line.text);
  return reader.timers();
}

}  // namespace meshplan
