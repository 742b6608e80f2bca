#pragma once
// Another run of this program whose output is collected while the caller waits for something else
// too.
#include <array>
#include <cstddef>
#include <string>
#include <sys/types.h>
#include <vector>

namespace meshplan {

// Of one run, in a process group of its own. Standard input is empty. What it prints is read when
// the caller's poll() says that there is something.
class ChildProcess {
 public:
  // `words` follow the program's name; `folder` is where it runs, the caller's if empty. What
  // cannot be started ends at once, with exit code 70 and the reason on its standard error.
  ChildProcess(const std::vector<std::string>& words, const std::string& folder);
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Descriptors to wait for: standard output and standard error; -1 once at their end.
  [[nodiscard]] const std::array<int, 2>& descriptors() const { return from_; }
  // Reads what is there. A run that prints more than kMostOutput bytes is ended.
  void read_some(std::size_t which);
  [[nodiscard]] bool at_end() const { return from_[0] < 0 && from_[1] < 0; }
  // Once at_end(): waits for the process; the exit code, 128 and more where a signal ended it.
  int exit_code();
  // Ends it now.
  void end();

  [[nodiscard]] const std::string& output() const { return texts_[0]; }
  [[nodiscard]] const std::string& errors() const { return texts_[1]; }

  static constexpr std::size_t kMostOutput = std::size_t{64} << 20U;

 private:
  pid_t pid_ = -1;
  std::array<int, 2> from_{-1, -1};
  std::array<std::string, 2> texts_;
};

}  // namespace meshplan
