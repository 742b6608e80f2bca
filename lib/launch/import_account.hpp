#pragma once
// What an import made of a run's options, in a few sentences.
#include <string>
#include <vector>

#include "launch/imported_run.hpp"

namespace meshplan {

// Options that the estimate leaves out, one sentence per reason: "--a, --b: the estimate ...".
[[nodiscard]] std::vector<std::string> left_out_texts(const ImportedRun& run);

// "vocabulary 50,257 (GPT-2's tokenizer)", one per value that the files do not state.
[[nodiscard]] std::vector<std::string> assumed_texts(const ImportedRun& run);

// "38 options: 30 are modelled, 7 change neither time nor memory, 1 is not modelled"; empty where
// the files have none.
[[nodiscard]] std::string account_text(const ImportedRun& run);

// The same as findings of a lint: options that nobody knows are errors, those that the estimate
// leaves out and values that are assumed are notes.
[[nodiscard]] Diagnostics account_findings(const ImportedRun& run, const OptionTable& table,
                                           const std::string& file);

}  // namespace meshplan
