#pragma once
// Studies as JSON values; private to this library.
#include "report/json_value.hpp"
#include "study/studies.hpp"

namespace meshplan {

// Whether nothing was left undecided: neither by time nor of the divisions of layers.
[[nodiscard]] inline bool proves_all(const Proof& proof) {
  return proof.exact && proof.undecided == 0;
}

[[nodiscard]] inline const char* proof_name(bool exact) { return exact ? "exact" : "bounded"; }

// Adds an object for each study that was asked for.
void add_studies(Json& document, const Studies& studies, const ClusterSpec& c);

// Adds what the busiest expert-parallel rank costs, where the loads of the experts are known.
void add_expert_load(Json& document, const ModelSpec& m, const ClusterSpec& c,
                     const PlanCost& plan);

// Adds what documents of uneven length cost, where their lengths are known.
void add_lengths(Json& document, const ModelSpec& m, const ClusterSpec& c, const PlanCost& plan);

}  // namespace meshplan
