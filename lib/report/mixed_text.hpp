#pragma once
// A plan for two kinds of machines, for people.
#include <string>

#include "report/table.hpp"
#include "spec/model.hpp"
#include "study/mixed.hpp"

namespace meshplan {

// What both kinds run, how the batch is split, what that is worth, and how far it is proved.
[[nodiscard]] std::string mixed_report(const ModelSpec& m, const MixedClusters& own,
                                       const SearchRequest& request, const Mixed& found,
                                       const TextOptions& options);

// For people: what was proved over which plans.
[[nodiscard]] std::string mixed_statement(const Mixed& found, const SearchRequest& request);

}  // namespace meshplan
