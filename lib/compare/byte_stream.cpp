#include "compare/byte_stream.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>
#include <zlib.h>

namespace meshplan {
namespace {

constexpr unsigned kBlock = 1U << 20;

std::string reason(int code) { return std::generic_category().message(code); }

}  // namespace

struct ByteStream::File {
  gzFile handle = nullptr;
  std::vector<char> block = std::vector<char>(kBlock);

  ~File() {
    if (handle != nullptr) gzclose_r(handle);
  }
};

ByteStream::ByteStream() = default;
ByteStream::ByteStream(ByteStream&&) noexcept = default;
ByteStream& ByteStream::operator=(ByteStream&&) noexcept = default;
ByteStream::~ByteStream() = default;

Result<ByteStream> ByteStream::open(const std::string& path) {
  const int fd = path == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                             : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return error_at({path},
                    errno == ENOENT ? "no such file" : "cannot be opened: " + reason(errno));
  }
  struct stat info {};
  if (::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
    ::close(fd);
    return error_at({path}, "is a folder, not a file");
  }
  ByteStream stream;
  stream.file_ = std::make_unique<File>();
  stream.file_->handle = gzdopen(fd, "rb");
  if (stream.file_->handle == nullptr) {
    ::close(fd);
    return error_at({path}, "cannot be opened: out of memory");
  }
  gzbuffer(stream.file_->handle, kBlock);
  return stream;
}

ByteStream ByteStream::of(std::string_view text) {
  ByteStream stream;
  stream.text_ = text;
  return stream;
}

std::string_view ByteStream::next() {
  if (!file_) {
    total_ += text_.size();
    return std::exchange(text_, {});
  }
  if (!problem_.empty()) return {};
  const int got = gzread(file_->handle, file_->block.data(), kBlock);
  int code = Z_OK;
  const char* message = gzerror(file_->handle, &code);
  if (code == Z_BUF_ERROR) {
    problem_ = "the gzipped data break off";
  } else if (code == Z_ERRNO) {
    problem_ = "cannot be read further: " + reason(errno);
  } else if (code != Z_OK && code != Z_STREAM_END) {
    problem_ = std::string("the gzipped data are damaged: ") + message;
  }
  if (got > 0) total_ += static_cast<std::size_t>(got);
  return got > 0 ? std::string_view(file_->block.data(), static_cast<std::size_t>(got))
                 : std::string_view();
}

}  // namespace meshplan
