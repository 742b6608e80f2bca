#pragma once
// The XML that NCCL writes and reads, parsed by pugixml: elements with attributes, comments and an
// optional prolog; no text between elements, no document type, no entities but the five predefined
// ones and characters by number.
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace meshplan {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::vector<XmlElement> children;
  int line = 0;  // from 1, of its opening tag

  // Empty where there is no such attribute.
  [[nodiscard]] std::string attribute(const std::string& key) const;
};

// A node's topology has a few hundred.
inline constexpr std::size_t kMostXmlElements = 100'000;

// The root element. Fails with the line on everything else, on nesting deeper than kMaxDepth
// (yaml_tree.hpp), on more elements than kMostXmlElements, and on tags that do not match.
[[nodiscard]] Result<XmlElement> parse_xml(std::string_view text, const std::string& file);

}  // namespace meshplan
