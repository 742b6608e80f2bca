#include "probe/process.hpp"

#include <array>
#include <charconv>
#include <climits>
#include <csignal>
#include <ctime>
#include <fstream>
#include <sys/syscall.h>
#include <unistd.h>

namespace meshplan {
namespace {

constexpr int kMomentSeconds = 3;

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string link_target(const char* path) {
  std::array<char, PATH_MAX> target{};
  const ssize_t n = readlink(path, target.data(), target.size() - 1);
  return n < 0 ? std::string() : std::string(target.data(), static_cast<std::size_t>(n));
}

// Field 22 of /proc/<pid>/stat, counted behind the name, which may hold spaces.
std::string start_time(pid_t pid) {
  const std::string stat = first_line("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return {};
  constexpr int kFieldsBehindName = 20;
  std::size_t at = name_end + 1;
  for (int field = 0; field < kFieldsBehindName && at != std::string::npos; ++field) {
    at = stat.find(' ', field == 0 ? at : at + 1);
  }
  if (at == std::string::npos) return {};
  return stat.substr(at + 1, stat.find(' ', at + 1) - at - 1);
}

std::string identity_of(pid_t pid) {
  return first_line("/proc/sys/kernel/random/boot_id") + '|' + link_target("/proc/self/ns/pid") +
         '|' + std::to_string(pid) + '|' + start_time(pid);
}

}  // namespace

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown host";
}

std::string process_identity() { return identity_of(getpid()); }

std::string process_number(const std::string& identity) {
  const std::size_t space = identity.find('|', identity.find('|') + 1);
  if (space == std::string::npos) return "?";
  return identity.substr(space + 1, identity.find('|', space + 1) - space - 1);
}

void end_process_soon(const std::string& identity) {
  const std::string number = process_number(identity);
  pid_t pid = 0;
  const auto [end, failure] = std::from_chars(number.data(), number.data() + number.size(), pid);
  if (failure != std::errc() || pid <= 1 || pid == getpid()) return;
  // The descriptor stays with that one process, even if its number is given to another.
  const int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (process < 0) return;
  const pid_t child = identity_of(pid) == identity ? fork() : -1;
  if (child == 0) {
    // Only calls that are safe after fork() in a program with threads.
    setsid();
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(stream);
    const timespec moment{kMomentSeconds, 0};
    nanosleep(&moment, nullptr);
    syscall(SYS_pidfd_send_signal, process, SIGKILL, nullptr, 0);
    _exit(0);
  }
  close(process);
}

}  // namespace meshplan
