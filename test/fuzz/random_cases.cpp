// Estimates and searches of random cases, one line of JSON per document: {"schema", "seed",
// "document"}. What breaks an invariant ends the program; random_cases_test.py holds the documents
// against their schemas.
//
// usage: random_cases estimate|search FIRST_SEED COUNT
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "fuzz/invariants.hpp"

namespace {

using namespace meshplan::fuzz;

void print(const char* schema, std::uint64_t seed, const std::string& document) {
  if (document.empty()) return;
  const nlohmann::json line = {
      {"schema", schema}, {"seed", seed}, {"document", nlohmann::json::parse(document)}};
  std::printf("%s\n", line.dump().c_str());
}

void run(bool searches, std::uint64_t seed) {
  std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed));
  const std::vector<std::uint8_t> bytes = bytes_of(seed);
  Choices choices(bytes.data(), bytes.size());
  Case c;
  if (!make_case(choices, searches ? Size::kSmall : Size::kAny, c)) return;
  const Documents documents = searches ? check_search(choices, c) : check_estimate(c);
  print("estimate", seed, documents.estimate);
  print("plan", seed, documents.plan);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc == 4 ? argv[1] : "";
  if (what != "estimate" && what != "search") {
    std::fputs("usage: random_cases estimate|search FIRST_SEED COUNT\n", stderr);
    return 2;
  }
  const std::uint64_t first = std::strtoull(argv[2], nullptr, 10);
  const std::uint64_t count = std::strtoull(argv[3], nullptr, 10);
  for (std::uint64_t seed = first; seed < first + count; ++seed) run(what == "search", seed);
  return 0;
}
