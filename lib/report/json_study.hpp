#pragma once
// Studies as JSON values; private to this library.
#include "report/json_value.hpp"
#include "study/studies.hpp"

namespace meshplan {

// Adds an object for each study that was asked for.
void add_studies(Json& document, const Studies& studies, const ClusterSpec& c);

}  // namespace meshplan
