#include "console.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/printable.hpp"
#include "base/text.hpp"
#include "log.hpp"
#include "report/search_progress.hpp"

namespace meshplan {
namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// A terminal that a person looks at: continuous integration may offer one too.
bool is_live(int descriptor) {
  // mpirun gives each rank a terminal of its own, wherever its output goes.
  if (is_set("OMPI_COMM_WORLD_RANK")) return false;
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal != nullptr && std::strcmp(terminal, "dumb") == 0;
  return isatty(descriptor) == 1 && !dumb && !is_set("CI");
}

bool wants_colour(int descriptor) { return is_live(descriptor) && !is_set("NO_COLOR"); }

bool shows_progress(const CommonFlags& flags) { return is_live(STDERR_FILENO) && !flags.quiet; }

// Columns of a terminal; 80 where that cannot be told.
std::size_t columns_of(int descriptor) {
  winsize size{};
  if (isatty(descriptor) == 1 && ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  return TextOptions{}.width;
}

}  // namespace

int write_result(std::string_view result, int exit_code) {
  // Files and pipes get every byte; a terminal would obey some of them.
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  const std::string text = terminal ? printable_lines(result) : std::string(result);
  const std::size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written == text.size() && std::fflush(stdout) == 0) return exit_code;
  if (errno == EPIPE) return exit_code;
  // Not through the log, which --help and --version have not set up.
  const Diagnostic failed =
      error("cannot write to standard output: " + std::string(std::strerror(errno)));
  std::fputs(to_text(failed).c_str(), stderr);
  return kExitBadInput;
}

TextOptions console_options() {
  constexpr std::size_t kNarrowest = 60, kWidest = 160;
  TextOptions options;
  options.colour = wants_colour(STDOUT_FILENO);
  options.width = std::clamp(columns_of(STDOUT_FILENO), kNarrowest, kWidest);
  return options;
}

void set_up_logging(const CommonFlags& flags) {
  set_up_log(flags.quiet     ? LogLevel::kQuiet
             : flags.verbose ? LogLevel::kVerbose
                             : LogLevel::kNormal,
             wants_colour(STDERR_FILENO));
}

int report_errors(const Diagnostics& all, const CommonFlags& flags) {
  const std::string text = to_text(all);
  std::fwrite(text.data(), 1, text.size(), stderr);
  return flags.json ? write_result(error_document(kTool, all), kExitBadInput) : kExitBadInput;
}

Progress progress_bar(const CommonFlags& flags, const std::string& what) {
  if (!shows_progress(flags)) return {};
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kFirst{300},
      kBetween{100};  // what is over soon shows nothing
  const Clock::time_point start = Clock::now();
  return [what, start, next = start + kFirst](const SearchProgress& done) mutable {
    const Clock::time_point now = Clock::now();
    if (now < next) return;
    next = now + kBetween;
    const Seconds elapsed{std::chrono::duration<double>(now - start).count()};
    const std::size_t width = columns_of(STDERR_FILENO) - 1;  // the last column would wrap
    const std::string text =
        "\r" + progress_line(what, done.share, elapsed, width, best_so_far(done)) + "\x1b[K";
    std::fwrite(text.data(), 1, text.size(), stderr);
  };
}

void clear_progress_bar(const CommonFlags& flags) {
  if (shows_progress(flags)) std::fputs("\r\x1b[K", stderr);
}

}  // namespace meshplan
