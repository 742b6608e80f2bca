#include "io/write.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <string>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace meshplan {
namespace {

namespace fs = std::filesystem;

// Temporary files of this program, and of no other.
constexpr std::string_view kPrefix = ".meshplan-tmp-";
// Older ones that nobody holds belong to a run that was killed.
constexpr std::time_t kStaleSeconds = 600;

std::string reason(int code) { return std::generic_category().message(code); }

Diagnostic failed(const fs::path& path, const std::string& what, int code) {
  std::string hint;
  if (code == ENOSPC || code == EDQUOT) hint = "make room, or name a file on another disk";
  if (code == EFBIG) hint = "the shell's limit of file sizes (ulimit -f) is too low";
  return error_at({path.string()}, "cannot be " + what + ": " + reason(code), hint);
}

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int fd() const { return fd_; }
  // 0, or the reason why what was written is not there.
  [[nodiscard]] int close() {
    const int fd = std::exchange(fd_, -1);
    return ::close(fd) == 0 ? 0 : errno;
  }

 private:
  int fd_;
};

// 0, or the reason.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return 0;
}

// The mode of the file that is replaced, without what runs as somebody else; of a new file what
// open() would give it under the process's umask.
int set_usual_mode(int fd, const fs::path& path) {
  struct stat old {};
  if (::stat(path.c_str(), &old) == 0) {
    // Root keeps the owner. Others cannot give files away: then the file becomes theirs.
    if (::fchown(fd, old.st_uid, old.st_gid) != 0) errno = 0;
    return ::fchmod(fd, old.st_mode & 0777U) == 0 ? 0 : errno;
  }
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return ::fchmod(fd, 0666U & ~mask) == 0 ? 0 : errno;
}

// After a crash the name must still point at the new file. Not every file system can do it.
void flush_folder(const fs::path& folder) {
  const File file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.fd() >= 0) ::fsync(file.fd());
}

// Removes what killed runs have left. A living run holds a lock on its file.
void remove_stale(const fs::path& folder) {
  DIR* all = ::opendir(folder.c_str());
  if (all == nullptr) return;
  while (const dirent* entry = ::readdir(all)) {
    if (!std::string_view(entry->d_name).starts_with(kPrefix)) continue;
    const File file(
        ::openat(::dirfd(all), entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat info {};
    if (file.fd() < 0 || ::fstat(file.fd(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (std::time(nullptr) - info.st_mtime < kStaleSeconds) continue;
    if (::flock(file.fd(), LOCK_EX | LOCK_NB) == 0) ::unlinkat(::dirfd(all), entry->d_name, 0);
  }
  ::closedir(all);
}

// Ctrl-C waits for the moment that it takes to finish a file: then none is left over.
class SignalsLater {
 public:
  SignalsLater() {
    sigset_t all;
    ::sigemptyset(&all);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&all, number);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsLater() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsLater(const SignalsLater&) = delete;
  SignalsLater& operator=(const SignalsLater&) = delete;

 private:
  sigset_t before_{};
};

int replace_file(const fs::path& path, std::string_view text) {
  const SignalsLater later;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::string temporary = (folder / (std::string(kPrefix) + "XXXXXX")).string();
  File file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.fd() < 0) return errno;
  ::flock(file.fd(), LOCK_EX | LOCK_NB);  // without locks, age alone tells what is stale
  int code = write_all(file.fd(), text);
  if (code == 0) code = set_usual_mode(file.fd(), path);
  if (code == 0 && ::fsync(file.fd()) != 0) code = errno;
  if (code == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) code = errno;
  if (code != 0) ::unlink(temporary.c_str());
  if (const int closed = file.close(); code == 0) code = closed;
  if (code == 0) flush_folder(folder);
  remove_stale(folder);
  return code;
}

// Pipes, terminals, /dev/null: nothing there can be replaced.
int write_into(const fs::path& path, std::string_view text) {
  File file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY));
  if (file.fd() < 0) return errno;
  const int code = write_all(file.fd(), text);
  const int closed = file.close();
  return code != 0 ? code : closed;
}

bool is_stream(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) return true;
  // /dev/stdout may lead to a regular file, which its opener goes on writing to.
  const std::string name = path.lexically_normal().string();
  return name.starts_with("/dev/std") || name.starts_with("/dev/fd/") || name.starts_with("/proc/");
}

// The file that a chain of symbolic links ends in, whether it exists or not.
fs::path target_of(fs::path path) {
  constexpr int kMostLinks = 40;
  for (int i = 0; i < kMostLinks; ++i) {
    std::error_code failure;
    const fs::path next = fs::read_symlink(path, failure);
    if (failure) return path;
    path = next.is_absolute() ? next : path.parent_path() / next;
  }
  return path;
}

}  // namespace

Result<Written> write_file_atomically(const fs::path& path, std::string_view text) {
  std::error_code failure;
  if (fs::is_directory(path, failure)) return error_at({path.string()}, "is a folder, not a file");
  if (is_stream(path)) {
    const int code = write_into(path, text);
    if (code != 0) return failed(path, "written", code);
    return Written{};
  }
  const fs::path target = target_of(path);
  // Renaming over a file asks only the folder; a file that is protected stays as it is.
  if (fs::exists(target, failure) && ::faccessat(AT_FDCWD, target.c_str(), W_OK, AT_EACCESS) != 0) {
    return failed(path, "written", errno);
  }
  const int code = replace_file(target, text);
  if (code != 0) return failed(path, "written", code);
  return Written{};
}

}  // namespace meshplan
