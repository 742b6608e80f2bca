#pragma once
// The page of the HTML report, bundled from lib/report/page when the program was built.
#include <string_view>

namespace meshplan {

// With "{{result}}" where the result's JSON goes; empty if the program was built without the page.
[[nodiscard]] std::string_view page_template();

}  // namespace meshplan
