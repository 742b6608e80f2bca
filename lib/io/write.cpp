#include "io/write.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace meshplan {
namespace {

std::string reason(int code) { return std::generic_category().message(code); }

Diagnostic failed(const std::filesystem::path& path, const std::string& what, int code) {
  return error_at({path.string()}, "cannot be " + what + ": " + reason(code));
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

// Permissions of a new file under the process's umask, as open() would give it.
bool set_usual_mode(int fd, const std::filesystem::path& path) {
  struct stat old {};
  if (::stat(path.c_str(), &old) == 0) return ::fchmod(fd, old.st_mode & 07777U) == 0;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return ::fchmod(fd, 0666U & ~mask) == 0;
}

// After a crash the name must still point at the new file. Not every file system can do it.
void flush_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

Result<Written> write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  std::error_code failure;
  if (std::filesystem::is_directory(path, failure)) {
    return error_at({path.string()}, "is a folder, not a file");
  }
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::string temporary = (folder / (".meshplan-XXXXXX")).string();
  const int fd = ::mkstemp(temporary.data());
  if (fd < 0) return failed(path, "written", errno);
  const bool written = write_all(fd, text) && set_usual_mode(fd, path) && ::fsync(fd) == 0;
  int code = written ? 0 : errno;
  if (::close(fd) != 0 && code == 0) code = errno;
  if (code == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) code = errno;
  if (code != 0) {
    ::unlink(temporary.c_str());
    return failed(path, "written", code);
  }
  flush_folder(folder);
  return Written{};
}

}  // namespace meshplan
