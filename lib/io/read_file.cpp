#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "io/load.hpp"
#include "io/yaml_tree.hpp"

namespace meshplan {
namespace {

class FileDescriptor {
 public:
  // Not blocking: opening a FIFO would wait for a writer. "-" is standard input.
  explicit FileDescriptor(const std::string& path)
      : fd_(path == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                        : ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  [[nodiscard]] int value() const { return fd_; }

 private:
  int fd_;
};

std::string reason(int code) { return std::generic_category().message(code); }

Diagnostic at_file(const std::string& file, std::string message, std::string hint = {}) {
  return error_at({file}, std::move(message), std::move(hint));
}

}  // namespace

Result<std::string> read_text_file(const std::filesystem::path& path) {
  const std::string name = path.string();
  const FileDescriptor file(name);
  if (file.value() < 0) {
    if (errno == ENOENT) return at_file(name, "no such file");
    return at_file(name, "cannot be opened: " + reason(errno));
  }
  struct stat info {};
  if (::fstat(file.value(), &info) != 0) return at_file(name, "cannot be read: " + reason(errno));
  if (S_ISDIR(info.st_mode)) return at_file(name, "is a folder, not a file");
  // Pipes: standard input, and what a shell makes of <(command).
  if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode)) {
    return at_file(name,
                   name == "-" ? "standard input is no file and no pipe" : "is not a regular file");
  }
  // What a writer has not written yet is waited for.
  if (S_ISFIFO(info.st_mode)) {
    (void)::fcntl(file.value(), F_SETFL, ::fcntl(file.value(), F_GETFL) & ~O_NONBLOCK);
  }
  std::string text;
  std::string block(std::size_t{1} << 16, '\0');
  while (text.size() <= kMaxFileBytes) {
    const ssize_t got = ::read(file.value(), block.data(), block.size());
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return at_file(name, "cannot be read: " + reason(errno));
    text.append(block.data(), static_cast<std::size_t>(got));
  }
  if (text.size() > kMaxFileBytes) return at_file(name, "larger than 16 MiB");
  if (text.empty()) return at_file(name, "is empty");
  if (const auto bad = first_invalid_utf8(text)) {
    const auto [line, column] = position_of(text, *bad);
    return error_at({name, line, column}, "not UTF-8 text");
  }
  return text;
}

}  // namespace meshplan
