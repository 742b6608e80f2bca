// Runs a fuzz target over files instead of made-up inputs: the corpus as an ordinary test, with
// any compiler. Arguments are the target, and files and folders; a folder's files are taken, not
// its subfolders'.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "fuzz/fuzz.hpp"

namespace {

namespace fs = std::filesystem;
using meshplan::fuzz::Target;

std::map<std::string_view, Target>& targets() {
  static std::map<std::string_view, Target> all;
  return all;
}

std::vector<fs::path> inputs(int argc, char** argv) {
  std::vector<fs::path> files;
  for (int i = 2; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      files.emplace_back(argv[i]);
      continue;
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(argv[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

bool meshplan::fuzz::add_target(std::string_view name, Target target) {
  return targets().emplace(name, target).second;
}

int main(int argc, char** argv) {
  const auto found = argc < 2 ? targets().end() : targets().find(argv[1]);
  if (found == targets().end()) {
    std::fprintf(stderr, "usage: replay TARGET FILE...; targets:");
    for (const auto& [name, target] : targets()) std::fprintf(stderr, " %s", name.data());
    std::fprintf(stderr, "\n");
    return 2;
  }
  const std::vector<fs::path> files = inputs(argc, argv);
  if (files.empty()) {
    std::fprintf(stderr, "no inputs\n");
    return 1;
  }
  for (const fs::path& file : files) {
    // Named first, so that a crash says which input it was.
    std::printf("%s\n", file.c_str());
    std::fflush(stdout);
    std::ifstream stream(file, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    found->second(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  }
  std::printf("%zu inputs\n", files.size());
  return 0;
}
