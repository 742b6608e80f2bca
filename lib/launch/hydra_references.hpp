#pragma once
// References inside of hydra's configurations: "${.hidden_size}", "${model.num_layers}",
// "${multiply:4, ${.hidden_size}}", "${oc.env:NAME,default}".
#include <map>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "io/yaml_tree.hpp"

namespace meshplan {

class HydraReferences {
 public:
  // `section` is where "${.name}" looks; `variables` are the environment, and come before the tree.
  HydraReferences(const YamlNode& root, const YamlNode& section,
                  const std::map<std::string, std::string>& variables)
      : root_(root), section_(section), variables_(variables) {}

  // Text with its references replaced by what they name, the innermost first. Fails where nothing
  // says what a reference is, or references name each other.
  [[nodiscard]] Result<std::string> resolved(const std::string& text) const;

 private:
  Result<std::string> resolved(std::string text, int depth) const;
  Result<std::string> value_of(const std::string& name, int depth) const;
  [[nodiscard]] std::optional<std::string> called(const std::string& function,
                                                  const std::string& arguments) const;

  const YamlNode& root_;
  const YamlNode& section_;
  const std::map<std::string, std::string>& variables_;
};

}  // namespace meshplan
