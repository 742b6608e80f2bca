// Replaces one file over and over, for tests that kill it in between.
//
// usage: write_loop FILE BYTES [COUNT]
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>

#include "io/write.hpp"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::size_t bytes = std::strtoull(argv[2], nullptr, 10);
  const unsigned long long count = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : ~0ULL;
  for (unsigned long long i = 0; i < count; ++i) {
    const std::string tag = std::to_string(getpid()) + " " + std::to_string(i);
    const std::string text =
        "begin " + tag + "\n" + std::string(bytes, 'x') + "\nend " + tag + "\n";
    const auto written = meshplan::write_file_atomically(argv[1], text);
    if (!written.ok()) {
      std::fputs(to_text(written.errors()).c_str(), stderr);
      return 1;
    }
    if (i == 0) {
      std::puts("first");
      std::fflush(stdout);
    }
  }
  return 0;
}
