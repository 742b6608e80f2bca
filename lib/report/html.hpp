#pragma once
// A result as one HTML file that needs nothing else: no network, no other file.
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"
#include "spec/strategy.hpp"

namespace meshplan {

// Whether the program was built with the page.
[[nodiscard]] bool has_page();

// What reads plans takes YAML too; the functions below take JSON alone.
[[nodiscard]] bool is_json(std::string_view text);

// The page with a result in it. `document`: JSON text of plan_document or estimate_document, read
// back without an error; has_page() must hold.
[[nodiscard]] std::string html_report(std::string_view document);

// The same document with the timeline and the placement of its best plan `s`, where it lacks them.
[[nodiscard]] std::string with_detail(std::string_view document, const ModelSpec& m,
                                      const ClusterSpec& c, const Strategy& s);

// The same document with what `meshplan validate --json` said of its plans (`validation`, from
// `file`). Fails where that is something else, or of other plans.
[[nodiscard]] Result<std::string> with_validation(std::string_view document,
                                                  std::string_view validation,
                                                  const std::string& file);

}  // namespace meshplan
