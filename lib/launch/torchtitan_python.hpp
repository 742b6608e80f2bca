#pragma once
// torchtitan's configurations of main (models/*/config_registry.py), which are functions of Python:
// read as text, never run.
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "io/yaml_tree.hpp"
#include "launch/imported_run.hpp"

namespace meshplan {

[[nodiscard]] bool is_torchtitan_python(std::string_view text);

// What one function of the file sets, as the job files of before have it: sections of settings,
// each in its line. `config` names the function; empty: the only one. The model is that of the
// folder (models/llama3/config_registry.py), or else of the function's name. Understood are calls
// with keywords, other functions of the file, literals, products of them, and assignments to fields
// of the configuration. Fails where the file has no such function, and where a field that decides
// the run has a value that only Python knows.
[[nodiscard]] Result<YamlNode> read_torchtitan_python(const NamedText& file,
                                                      const std::string& config);

}  // namespace meshplan
