#include "child_process.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "base/program_path.hpp"
#include "command.hpp"

namespace meshplan {
namespace {

void close_if_open(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& words, const std::string& folder) {
  std::array<int, 2> out{-1, -1}, err{-1, -1};
  std::vector<std::string> all{"meshplan"};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string program = program_path().string();
  std::array<int, 2> in{-1, -1};  // ends at once; /dev/null is not everywhere
  const bool piped = pipe2(in.data(), O_CLOEXEC) == 0 && pipe2(out.data(), O_CLOEXEC) == 0 &&
                     pipe2(err.data(), O_CLOEXEC) == 0;
  if (piped) pid_ = fork();
  if (pid_ == 0) {  // only calls that are safe after fork()
    setpgid(0, 0);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    if (folder.empty() || chdir(folder.c_str()) == 0) execv(program.c_str(), argv.data());
    _exit(kExitInternal);
  }
  const int failure = errno;
  close_if_open(in[0]);
  close_if_open(in[1]);
  close_if_open(out[1]);
  close_if_open(err[1]);
  if (pid_ > 0) {
    from_ = {out[0], err[0]};
    return;
  }
  close_if_open(out[0]);
  close_if_open(err[0]);
  texts_[1] = std::string("the command cannot be started: ") + std::strerror(failure) + "\n";
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      from_(std::exchange(other.from_, {-1, -1})),
      texts_(std::move(other.texts_)) {}

ChildProcess::~ChildProcess() {
  end();
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

void ChildProcess::read_some(std::size_t which) {
  std::array<char, 65536> buffer;
  const ssize_t n = read(from_[which], buffer.data(), buffer.size());
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n <= 0) {
    close_if_open(from_[which]);
    return;
  }
  texts_[which].append(buffer.data(), static_cast<std::size_t>(n));
  if (texts_[which].size() > kMostOutput) end();
}

int ChildProcess::exit_code() {
  if (pid_ <= 0) return kExitInternal;
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void ChildProcess::end() {
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);
    kill(pid_, SIGKILL);  // before it has made its group
  }
  for (int& descriptor : from_) close_if_open(descriptor);
}

}  // namespace meshplan
