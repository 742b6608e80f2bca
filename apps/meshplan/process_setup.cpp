#include "process_setup.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

namespace meshplan {
namespace {

// Only calls that a signal handler may make.
void end_by_signal(int number) {
  const int interrupted_call = errno;
  // Over the progress bar, where there may be one.
  constexpr std::string_view kText =
      "\r\x1b[Kinterrupted: files are as they were before, or complete\n";
  constexpr std::size_t kErase = 4;
  const std::string_view text = isatty(STDERR_FILENO) == 1 ? kText : kText.substr(kErase);
  [[maybe_unused]] const ssize_t put = write(STDERR_FILENO, text.data(), text.size());
  std::signal(number, SIG_DFL);
  std::raise(number);  // ends the program when the handler returns
  errno = interrupted_call;
}

static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");
std::atomic<bool> interrupted = false;

void handle(int number, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(number, &action, nullptr);
}

// The first Ctrl-C of a command that has something to show by then.
void stop_by_signal(int number) {
  const int interrupted_call = errno;
  constexpr std::string_view kText =
      "\r\x1b[Kinterrupted: what was found so far follows; Ctrl-C again to quit at once\n";
  constexpr std::size_t kErase = 4;
  const std::string_view text = isatty(STDERR_FILENO) == 1 ? kText : kText.substr(kErase);
  [[maybe_unused]] const ssize_t put = write(STDERR_FILENO, text.data(), text.size());
  interrupted.store(true, std::memory_order_relaxed);
  handle(number, end_by_signal, static_cast<int>(SA_RESETHAND | SA_NODEFER));
  errno = interrupted_call;
}

void open_standard_streams() {
  // The lowest free number is taken. What is written to such a stream fails, as it would have.
  int fd = open("/dev/null", O_RDONLY);
  while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDONLY);
  if (fd > STDERR_FILENO) close(fd);
}

}  // namespace

void set_up_process() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  open_standard_streams();
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;  // nohup, or a job in the background
    // A second Ctrl-C ends at once; SIGTERM is not blocked in its own handler.
    handle(number, end_by_signal, static_cast<int>(SA_RESETHAND | SA_NODEFER));
  }
}

const std::atomic<bool>& catch_interrupt() {
  struct sigaction before {};
  sigaction(SIGINT, nullptr, &before);
  if (before.sa_handler != SIG_IGN) handle(SIGINT, stop_by_signal, SA_RESTART);
  return interrupted;
}

}  // namespace meshplan
