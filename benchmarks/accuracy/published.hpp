#pragma once
// Reads folders of published runs, in the YAML form that transcribes a source, or in the compact
// form that ships here (one .jsonl file per source, written by compact.py). Both give equal runs.
//
// Compact form: the first line is an object with the file's head (use, source, hardware), "models"
// (name -> model section) and "defaults" (what most rows state); each further line is a run, where
// "model" names a section, a key replaces the default, and null takes a default away.
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "run.hpp"

namespace meshplan::accuracy {

Result<Source> parse_published_yaml(const std::string& text, const std::string& file);
Result<Source> parse_published_compact(const std::string& text, const std::string& file);

// Every .yaml, .yml and .jsonl of the folders (or single files), by name. Nothing at all, and one
// source given twice, are errors.
Result<std::vector<Source>> read_published(std::span<const std::filesystem::path> inputs);

}  // namespace meshplan::accuracy
