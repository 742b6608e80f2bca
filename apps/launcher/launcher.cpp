// bin/meshplan of the portable archive: runs the program with the loader and the libraries that lie
// beside it, so that the machine's own do not matter. Linked statically, in C's library alone.
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <sys/auxv.h>
#include <unistd.h>

namespace {

constexpr std::string_view kFolder = "/lib/meshplan/";
constexpr int kExitInternal = 70;

[[noreturn]] void fail(const char* what, const char* path) {
  std::fprintf(stderr, "meshplan: %s %s\n", what, path);
  std::exit(kExitInternal);
}

// This file, links followed; where there is no /proc, as it was started.
bool find_self(char* path) {
  if (realpath("/proc/self/exe", path) != nullptr) return true;
  const auto* started =
      reinterpret_cast<const char*>(getauxval(AT_EXECFN));  // NOLINT: the kernel's
  return started != nullptr && realpath(started, path) != nullptr;
}

char* joined(const char* a, std::string_view b, const char* c) {
  const std::size_t size = std::strlen(a) + b.size() + std::strlen(c) + 1;
  char* text = static_cast<char*>(std::malloc(size));  // NOLINT: until the program is replaced
  if (text == nullptr) fail("no memory for", c);
  std::snprintf(text, size, "%s%.*s%s", a, static_cast<int>(b.size()), b.data(), c);
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  char self[PATH_MAX];
  if (!find_self(self)) fail("where is", argc > 0 ? argv[0] : "the program");
  char* root = joined(self, "", "");
  for (int i = 0; i < 2; ++i) {  // the archive's folder above bin/
    char* slash = std::strrchr(root, '/');
    if (slash == nullptr) fail("not in a folder bin:", self);
    *slash = '\0';
  }
  char* loader = joined(root, kFolder, MESHPLAN_LOADER);
  char* libraries = joined(root, kFolder, "runtime");
  // Of plug-ins: CUDA's and MPI's libraries are the machine's.
  if (const char* more = std::getenv("LD_LIBRARY_PATH"); more != nullptr && *more != '\0') {
    libraries = joined(libraries, ":", more);
  }
  constexpr int kOwn = 6;
  auto** words =
      static_cast<char**>(std::calloc(static_cast<std::size_t>(argc + kOwn + 1), sizeof(char*)));
  if (words == nullptr) fail("no memory for", self);
  char name[] = "meshplan", path_flag[] = "--library-path", name_flag[] = "--argv0";
  char* own[kOwn] = {loader,    path_flag, libraries,
                     name_flag, name,      joined(root, kFolder, "meshplan")};
  std::memcpy(words, own, sizeof(own));
  for (int i = 1; i < argc; ++i) words[kOwn + i - 1] = argv[i];
  if (setenv("MESHPLAN_PROGRAM", self, 1) != 0) fail("no memory for", self);
  execv(loader, words);
  fail("cannot run", loader);
}
