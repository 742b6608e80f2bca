#pragma once
// Reads the keys of a Hugging Face config.json. Such a file carries many keys that do not concern a
// plan (tokens, generation, versions), so unknown keys are fine, and it spells one thing in several
// ways: versions of the library and files of the hub differ.
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/yaml_reader.hpp"

namespace meshplan {

using HfNames = std::vector<std::string_view>;  // spellings of one key, the usual one first

// Larger sizes are refused where they are read, so that products of two stay inside 64 bits.
inline constexpr std::int64_t kLargestHfSize = std::int64_t{1} << 30;

// Where the value of a ModelSpec key stands in the file.
using HfOrigins = std::map<std::string, const YamlNode*>;

// One mapping of the file. A problem is recorded in the document and a harmless value returned, so
// that all problems are reported at once. Null means absent, except where a family says otherwise.
// `key` is the ModelSpec key that a value feeds.
class HfFields {
 public:
  HfFields(Document& document, const YamlNode& map, HfOrigins& origins);

  [[nodiscard]] bool has(const HfNames& names) const;      // given, and not null
  [[nodiscard]] bool is_null(const HfNames& names) const;  // given as null

  // Whether a good value was read for this ModelSpec key.
  [[nodiscard]] bool was_read(const std::string& key) const { return origins_->count(key) > 0; }

  // Whole numbers of at least 1; the first is an error where it is missing.
  std::int64_t size(const std::string& key, const HfNames& names,
                    std::int64_t largest = kLargestHfSize);
  std::int64_t size_or(const std::string& key, const HfNames& names, std::int64_t fallback);
  // A whole number of at least 0.
  std::int64_t count_or(const std::string& key, const HfNames& names, std::int64_t fallback);
  // The number of a layer, or the first of a list of them; -1 stands for the last one.
  std::int64_t index_or(const std::string& key, const HfNames& names, std::int64_t fallback);
  double real_or(const std::string& key, const HfNames& names, double fallback);
  bool flag_or(const HfNames& names, bool fallback);
  std::string text_or(const HfNames& names, const std::string& fallback);
  // Items of a list; empty if there is none.
  std::vector<std::int64_t> counts(const HfNames& names);
  std::vector<std::string> texts(const HfNames& names);
  // A whole number, or the first of a list of them; `fallback` where there is none.
  std::int64_t first_count_or(const std::string& key, const HfNames& names, std::int64_t fallback);
  // The mappings of a list.
  std::vector<HfFields> sections(std::string_view name);
  // Whether the value is a list.
  [[nodiscard]] bool is_list(const HfNames& names) const;
  // Keys of this mapping that nothing asked for, and of its sections that were opened ("a.b"), but
  // for those whose value is null, false, none or empty.
  [[nodiscard]] std::vector<std::string> unread() const;
  // The mapping under `name`, without keys if there is none.
  HfFields section(std::string_view name);

  // Points at the first of `names` that is present, else at the mapping.
  void error(const HfNames& names, const std::string& message, const std::string& hint = {});

 private:
  Document* document_;
  const YamlNode* map_;
  HfOrigins* origins_;
  // Keys that were asked for; copies of this object, and those of its sections, share them.
  struct Asked {
    std::set<std::string, std::less<>> keys;
    std::map<std::string, std::shared_ptr<Asked>, std::less<>> sections;
  };
  std::shared_ptr<Asked> asked_;

  void ask(const HfNames& names) const;
  static void add_unread(const YamlNode& map, const Asked& asked, const std::string& prefix,
                         std::vector<std::string>& keys);
  const YamlNode* value(const HfNames& names);
  const YamlNode& nearest_node(const HfNames& names) const;
  std::int64_t integer(const std::string& key, const HfNames& names, std::int64_t fallback,
                       IntegerRange range);
};

}  // namespace meshplan
