#include "report/html.hpp"

#include "base/check.hpp"
#include "report/detail.hpp"
#include "report/json_detail.hpp"
#include "report/json_value.hpp"
#include "report/page.hpp"

namespace meshplan {
namespace {

constexpr std::string_view kSlot = "{{result}}";

// JSON that no HTML parser takes for anything but text: names may hold "</script>" or "<!--".
std::string inert(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '<':
        safe += "\\u003c";
        break;
      case '>':
        safe += "\\u003e";
        break;
      case '&':
        safe += "\\u0026";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

}  // namespace

bool has_page() { return !page_template().empty(); }

bool is_json(std::string_view text) { return Json::accept(text); }

std::string html_report(std::string_view document) {
  const std::string_view page = page_template();
  const std::size_t slot = page.find(kSlot);
  PLAN_CHECK(slot != std::string_view::npos);
  std::string html(page.substr(0, slot));
  html += inert(Json::parse(document));
  html += page.substr(slot + kSlot.size());
  return html;
}

std::string with_detail(std::string_view document, const ModelSpec& m, const ClusterSpec& c,
                        const Strategy& s) {
  Json json = Json::parse(document);
  if (!json.contains("placement")) json["placement"] = rank_map_json(s, c);
  if (!json.contains("timeline")) {
    if (const auto timeline = timeline_of(m, c, s)) json["timeline"] = timeline_json(*timeline);
  }
  return document_text(json);
}

}  // namespace meshplan
