#pragma once
// The namespace that Megatron-LM's program holds its arguments in, as options: logs print it, and
// configurations of programs around it fill it in.
#include <map>
#include <string>
#include <vector>

#include "launch/option_table.hpp"

namespace meshplan {

// Options, each in the line where it stands, so that what is wrong with one is reported there.
class PrintedOptions {
 public:
  void add(const std::string& name, const std::vector<std::string>& values, int line);
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::string> lines_;
};

// As Python prints the value: None, True, 8, ['core_attn', 'mlp'].
struct NamespaceArgument {
  std::string name, value;
  int line = 0;
  bool stated = false;  // somebody asked for it: it is no default
};
using Namespace = std::map<std::string, NamespaceArgument, std::less<>>;

// The options that fill the namespace. Of options that the estimate leaves out only what is stated
// is kept, and switches that are on, since a default cannot be told from a wish. `unknown` gains
// switches that are on and that the table does not know.
[[nodiscard]] std::string options_of(const Namespace& all, const OptionTable& table,
                                     std::vector<std::string>& unknown);

}  // namespace meshplan
