#include "io/xml_tree.hpp"

#include <algorithm>
#include <optional>
#include <pugixml.hpp>
#include <utility>

#include "io/yaml_tree.hpp"

namespace meshplan {
namespace {

constexpr auto kNowhere = std::string::npos;

class XmlTree {
 public:
  XmlTree(std::string text, std::string file) : text_(std::move(text)), file_(std::move(file)) {
    for (std::size_t at = text_.find('\n'); at != kNowhere; at = text_.find('\n', at + 1))
      line_ends_.push_back(at);
  }

  Result<XmlElement> read() {
    if (const auto bad = first_invalid_utf8(text_)) return failed(*bad, "the text is not UTF-8");
    if (const std::size_t at = text_.find('\0'); at != kNowhere)
      return failed(at, "XML holds no such character");
    // An element has at most two tags; counted before a tree is made of them.
    if (std::count(text_.begin(), text_.end(), '<') >
        static_cast<std::ptrdiff_t>(2 * kMostXmlElements))
      return failed(0, "too many elements", "expected a node's topology");
    // The parser writes its strings into this copy, so that they tell where they stand.
    parsed_ = text_;
    const pugi::xml_parse_result result = document_.load_buffer_inplace(
        parsed_.data(), parsed_.size(),
        pugi::parse_cdata | pugi::parse_doctype | pugi::parse_escapes | pugi::parse_fragment,
        pugi::encoding_utf8);
    if (!result) return not_parsed(result);
    XmlElement root;
    for (const pugi::xml_node node : document_) {
      if (node.type() != pugi::node_element)
        return failed(begin_of(node), root.name.empty() ? "this is no XML" : kBehindRoot);
      if (!root.name.empty()) return failed(begin_of(node), kBehindRoot);
      if (!fill(root, node, 1)) return *problem_;
    }
    if (root.name.empty()) return failed(0, "this is no XML", "expected an element");
    return root;
  }

 private:
  static constexpr const char* kBehindRoot = "text behind the root element";

  [[nodiscard]] Diagnostic failed(std::size_t offset, std::string what,
                                  std::string hint = {}) const {
    const auto [line, column] = position_of(text_, std::min(offset, text_.size()));
    Diagnostic d = error_at({file_, line, column}, std::move(what), std::move(hint));
    d.source_line = line_of(text_, line);
    return d;
  }
  bool fail(std::size_t offset, std::string what, std::string hint = {}) {
    problem_ = failed(offset, std::move(what), std::move(hint));
    return false;
  }

  [[nodiscard]] std::size_t offset_of(const char* string) const {
    return static_cast<std::size_t>(string - parsed_.data());
  }
  // An element's '<'; the first character of text that is not blank.
  [[nodiscard]] std::size_t begin_of(pugi::xml_node node) const {
    const auto at = static_cast<std::size_t>(std::max<std::ptrdiff_t>(node.offset_debug(), 0));
    return node.type() == pugi::node_element ? at - 1 : text_.find_first_not_of(" \t\n", at);
  }
  [[nodiscard]] int line_of_element(pugi::xml_node node) const {
    const auto at = std::lower_bound(line_ends_.begin(), line_ends_.end(), begin_of(node));
    return static_cast<int>(at - line_ends_.begin()) + 1;
  }
  [[nodiscard]] std::string named(pugi::xml_node node) const {
    return "<" + std::string(node.name()) + "> of line " + std::to_string(line_of_element(node));
  }

  bool fill(XmlElement& e, pugi::xml_node node, std::size_t depth) {
    if (depth > kMaxDepth)
      return fail(begin_of(node), "elements are nested too deeply", "expected less nesting");
    if (++elements_ > kMostXmlElements)
      return fail(begin_of(node), "too many elements", "expected a node's topology");
    e.name = node.name();
    e.line = line_of_element(node);
    for (const pugi::xml_attribute attribute : node.attributes()) {
      const std::size_t at = offset_of(attribute.name());
      if (first_invalid_utf8(attribute.value()))
        return fail(at, "the value of '" + std::string(attribute.name()) + "' is no text");
      if (!e.attributes.emplace(attribute.name(), attribute.value()).second)
        return fail(at, "<" + e.name + "> has '" + attribute.name() + "' twice", "expected one");
    }
    for (const pugi::xml_node child : node) {
      if (child.type() != pugi::node_element)
        return fail(begin_of(child), "text between elements", "expected an element");
      if (!fill(e.children.emplace_back(), child, depth + 1)) return false;
    }
    return true;
  }

  // Behind the tag that opens an element, and whether it closes it too.
  [[nodiscard]] std::pair<std::size_t, bool> behind_tag(pugi::xml_node node) const {
    std::size_t at = offset_of(node.name());
    if (const pugi::xml_attribute last = node.last_attribute()) {
      const std::size_t value = offset_of(last.value());
      at = text_.find(text_[value - 1], value);
    }
    const std::size_t end = std::min(text_.find('>', at), text_.size());
    return {end, end < text_.size() && text_[end - 1] == '/'};
  }

  // The last element that began before parsing stopped; the document if none did.
  [[nodiscard]] pugi::xml_node last_begun() const {
    const auto last_element = [](pugi::xml_node node) {
      pugi::xml_node child = node.last_child();
      while (child && child.type() != pugi::node_element) child = child.previous_sibling();
      return child;
    };
    pugi::xml_node node = document_;
    while (const pugi::xml_node child = last_element(node)) node = child;
    return node;
  }

  // The innermost element that is open at `until`, where parsing stopped. The document if none is.
  [[nodiscard]] pugi::xml_node open_at(std::size_t until) const {
    pugi::xml_node node = last_begun();
    if (node == document_) return node;
    const auto [behind, closed] = behind_tag(node);
    if (closed) node = node.parent();
    // No element begins behind it: what remains are comments and tags that close.
    for (std::size_t at = text_.find('<', behind); at < until; at = text_.find('<', at + 1)) {
      const std::string_view rest = std::string_view(text_).substr(at);
      if (rest.starts_with("</")) node = node.parent();
      if (rest.starts_with("<!--")) at = text_.find("-->", at);
      if (rest.starts_with("<?")) at = text_.find("?>", at);
    }
    return node;
  }

  [[nodiscard]] Diagnostic not_closed(std::size_t at) const {
    const std::size_t tag = text_.rfind("</", at);
    const bool at_end = at >= text_.size();
    const pugi::xml_node open = open_at(at_end || tag == kNowhere ? at : tag);
    const std::string expected =
        open == document_ ? "" : "expected </" + std::string(open.name()) + ">";
    if (at_end || tag == kNowhere) return failed(at, named(open) + " is not closed", expected);
    const std::size_t end = std::min(text_.find_first_of("> \t\n/<", tag + 2), text_.size());
    const std::string name = text_.substr(tag, end - tag) + ">";
    return failed(end,
                  name + " closes " + (open == document_ ? "nothing that is open" : named(open)),
                  expected);
  }

  [[nodiscard]] Diagnostic not_parsed(const pugi::xml_parse_result& result) const {
    const auto at = static_cast<std::size_t>(std::max<std::ptrdiff_t>(result.offset, 0));
    const pugi::xml_node last = last_begun();
    std::size_t depth = 0;
    for (pugi::xml_node node = last; node != document_; node = node.parent()) ++depth;
    if (depth > kMaxDepth)
      return failed(begin_of(last), "elements are nested too deeply", "expected less nesting");
    const std::string element = "<" + std::string(last.name()) + ">";
    switch (result.status) {
      case pugi::status_end_element_mismatch:
        return not_closed(at);
      case pugi::status_bad_attribute:
        return failed(at, element + " has an attribute that cannot be read",
                      "expected key=\"value\"");
      case pugi::status_bad_start_element:
      case pugi::status_bad_end_element:
        return failed(at, "a tag does not end", "expected '>'");
      case pugi::status_unrecognized_tag:
        return failed(at, "'<' is followed by no name", "expected a name");
      case pugi::status_no_document_element:
        return failed(at, "this is no XML", "expected an element");
      default:  // enumerators that only files or other calls can give
        return failed(at, result.description());
    }
  }

  std::string text_, file_, parsed_;
  std::vector<std::size_t> line_ends_;
  pugi::xml_document document_;
  std::size_t elements_ = 0;
  std::optional<Diagnostic> problem_;
};

}  // namespace

std::string XmlElement::attribute(const std::string& key) const {
  const auto at = attributes.find(key);
  return at == attributes.end() ? std::string() : at->second;
}

Result<XmlElement> parse_xml(std::string_view text, const std::string& file) {
  return XmlTree(normalised_lines(text), file).read();
}

}  // namespace meshplan
