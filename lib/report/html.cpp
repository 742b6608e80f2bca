#include "report/html.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/json_shape.hpp"
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

// The parser compares every key of an object with all before it; what we write has far fewer.
constexpr JsonLimits kPageLimits{.depth = 64, .values = 300'000, .keys = 1000};

// What the page reads of a validation, so that no other file passes for one.
bool is_validation(const Json& json) {
  using Type = bool (Json::*)() const noexcept;
  constexpr Type kText = &Json::is_string, kNumber = &Json::is_number, kFlag = &Json::is_boolean,
                 kList = &Json::is_array;
  const auto has = [](const Json& object,
                      std::initializer_list<std::pair<const char*, Type>> members) {
    return object.is_object() && std::all_of(members.begin(), members.end(), [&](const auto& m) {
             const auto found = object.find(m.first);
             return found != object.end() && ((*found).*m.second)();
           });
  };
  if (!has(json, {{"model", kText},
                  {"cluster", kText},
                  {"machine", &Json::is_object},
                  {"tolerance", kNumber},
                  {"within_tolerance", kFlag},
                  {"samples", kNumber},
                  {"not_reached", kNumber},
                  {"failures", kList},
                  {"plans", kList}}) ||
      !has(json["machine"],
           {{"ranks", kList}, {"nodes", kNumber}, {"backend", kText}, {"date", kText}})) {
    return false;
  }
  return std::all_of(json["plans"].begin(), json["plans"].end(), [&](const Json& plan) {
    return has(plan, {{"rank", kNumber},
                      {"new_rank", kNumber},
                      {"strategy_text", kText},
                      {"predicted_step_time_s", kNumber},
                      {"step_time_s", kNumber},
                      {"deviation", kNumber},
                      {"within_tolerance", kFlag},
                      {"coverage", kNumber},
                      {"extrapolated", kNumber},
                      {"unmeasured", kNumber},
                      {"operations", kList}});
  });
}

// The strategy of a plan of that rank in a result; empty if there is none.
std::string strategy_of(const Json& result, const Json& rank) {
  const Json plans = result.contains("plan") ? Json::array({result["plan"]})
                                             : result.value("plans", Json::array());
  for (const Json& plan : plans) {
    if (!plan.is_object() || plan.value("rank", Json(1)) != rank) continue;
    const auto text = plan.find("strategy_text");
    if (text != plan.end() && text->is_string()) return text->get<std::string>();
  }
  return {};
}

}  // namespace

bool has_page() { return !page_template().empty(); }

bool is_json(std::string_view text) { return is_within(text, kPageLimits) && Json::accept(text); }

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

Result<std::string> with_validation(std::string_view document, std::string_view validation,
                                    const std::string& file) {
  if (!is_within(validation, kPageLimits)) {
    return error_at({file}, "holds too many values or keys, or nests them too deeply",
                    "give what 'meshplan validate --json' printed");
  }
  Json json = Json::parse(document);
  Json checked = Json::parse(validation, nullptr, false);
  if (!is_validation(checked)) {
    return error_at({file}, "is no result of 'meshplan validate --json'");
  }
  for (const Json& plan : checked["plans"]) {
    if (strategy_of(json, plan["rank"]) == plan["strategy_text"]) continue;
    return error_at({file},
                    "validates other plans: that of rank " + plan["rank"].dump() + " is not " +
                        "the one of the report",
                    "validate the same file: meshplan validate --plans FILE --json");
  }
  json["validation"] = std::move(checked);
  return document_text(json);
}

}  // namespace meshplan
