#pragma once
// The bytes of a file, plain or gzipped, block by block: traces are larger than memory.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace meshplan {

class ByteStream {
 public:
  // Of a file or a pipe; "-" is standard input. Fails where it cannot be opened.
  static Result<ByteStream> open(const std::string& path);
  // Of text in memory, which must outlive the stream.
  static ByteStream of(std::string_view text);

  ByteStream(ByteStream&&) noexcept;
  ByteStream& operator=(ByteStream&&) noexcept;
  ~ByteStream();

  // The next bytes, until the next call; empty at the end, and where nothing more can be had.
  [[nodiscard]] std::string_view next();
  // How many bytes came until now.
  [[nodiscard]] std::size_t total() const { return total_; }
  // Why what came is not all of the file; empty where it is.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  struct File;
  ByteStream();

  std::unique_ptr<File> file_;  // none: of text
  std::string_view text_;
  std::string problem_;
  std::size_t total_ = 0;
};

}  // namespace meshplan
