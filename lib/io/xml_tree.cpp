#include "io/xml_tree.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "io/yaml_tree.hpp"

namespace meshplan {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == ':';
}

std::string decoded(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, char>, 5> kEntities{
      {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}}};
  std::string plain;
  while (!text.empty()) {
    const auto entity = std::find_if(kEntities.begin(), kEntities.end(),
                                     [&](const auto& e) { return text.starts_with(e.first); });
    plain += entity == kEntities.end() ? text.front() : entity->second;
    text.remove_prefix(entity == kEntities.end() ? 1 : entity->first.size());
  }
  return plain;
}

class Parser {
 public:
  Parser(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {}

  Result<XmlElement> document() {
    if (!skip_between()) return failed("an element", "this is no XML");
    std::optional<XmlElement> root = element(1);
    if (!root) return *problem_;
    if (skip_between() || at_ < text_.size())
      return failed("nothing", "text behind the root element");
    return std::move(*root);
  }

 private:
  // Blanks, comments, the prolog. True at the start of a tag.
  bool skip_between() {
    for (;;) {
      at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size());
      const bool comment = text_.substr(at_).starts_with("<!--");
      const bool prolog = text_.substr(at_).starts_with("<?");
      if (!comment && !prolog) break;
      const std::string_view close = comment ? "-->" : "?>";
      const std::size_t end = text_.find(close, at_);
      at_ = end == std::string_view::npos ? text_.size() : end + close.size();
    }
    return at_ < text_.size() && text_[at_] == '<';
  }

  // Of `at_`, which only ever grows: no line is counted twice.
  int line() {
    lines_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(counted_),
                                          text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n'));
    counted_ = at_;
    return lines_;
  }

  std::string name() {
    const std::size_t start = at_;
    while (at_ < text_.size() && is_name_character(text_[at_])) ++at_;
    return std::string(text_.substr(start, at_ - start));
  }

  // One element, `at_` on its '<'.
  std::optional<XmlElement> element(std::size_t depth) {
    if (depth > kMaxDepth) return fail("less nesting", "elements are nested too deeply");
    if (++elements_ > kMostElements) return fail("a node's topology", "too many elements");
    XmlElement e;
    e.line = line();
    ++at_;
    e.name = name();
    if (e.name.empty()) return fail("a name", "'<' is followed by no name");
    if (!attributes(e)) return std::nullopt;
    if (text_.substr(at_).starts_with("/>")) {
      at_ += 2;
      return e;
    }
    ++at_;  // '>'
    while (skip_between()) {
      if (!text_.substr(at_).starts_with("</")) {
        std::optional<XmlElement> child = element(depth + 1);
        if (!child) return std::nullopt;
        e.children.push_back(std::move(*child));
        continue;
      }
      at_ += 2;
      if (const std::string closed = name(); closed != e.name) {
        return fail("</" + e.name + ">",
                    "</" + closed + "> closes <" + e.name + "> of line " + std::to_string(e.line));
      }
      at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size());
      if (at_ >= text_.size() || text_[at_] != '>') return fail("'>'", "a tag does not end");
      ++at_;
      return e;
    }
    return fail("</" + e.name + ">",
                "<" + e.name + "> of line " + std::to_string(e.line) + " is not closed");
  }

  // Up to the '>' or "/>" of a tag.
  bool attributes(XmlElement& e) {
    for (;;) {
      at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size());
      if (text_.substr(at_).starts_with("/>") || text_.substr(at_).starts_with(">")) return true;
      const std::string key = name();
      const char quote = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
      if (key.empty() || (quote != '"' && quote != '\'') || text_[at_] != '=') {
        fail("key=\"value\"", "<" + e.name + "> has an attribute that cannot be read");
        return false;
      }
      const std::size_t start = at_ + 2, end = text_.find(quote, start);
      if (end == std::string_view::npos) {
        fail("a closing quote", "the value of '" + key + "' does not end");
        return false;
      }
      if (!e.attributes.emplace(key, decoded(text_.substr(start, end - start))).second) {
        fail("one", "<" + e.name + "> has '" + key + "' twice");
        return false;
      }
      at_ = end + 1;
    }
  }

  Diagnostic failed(const std::string& wanted, const std::string& what) {
    const auto [line, column] = position_of(text_, std::min(at_, text_.size()));
    Diagnostic d = error_at({file_, line, column}, what, "expected " + wanted);
    d.source_line = line_of(text_, line);
    return d;
  }

  std::nullopt_t fail(const std::string& wanted, const std::string& what) {
    problem_ = failed(wanted, what);
    return std::nullopt;
  }

  std::string_view text_;
  std::string file_;
  static constexpr std::size_t kMostElements = 100'000;
  std::size_t at_ = 0, counted_ = 0, elements_ = 0;
  int lines_ = 1;
  std::optional<Diagnostic> problem_;
};

}  // namespace

std::string XmlElement::attribute(const std::string& key) const {
  const auto at = attributes.find(key);
  return at == attributes.end() ? std::string() : at->second;
}

Result<XmlElement> parse_xml(std::string_view text, const std::string& file) {
  const std::string lines = normalised_lines(text);
  return Parser(lines, file).document();
}

}  // namespace meshplan
