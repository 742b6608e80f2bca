#pragma once
// Every option that a training program has, and what an import does with it. Names are data: one
// list per program, in groups of one effect (options_*.cpp).
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/names.hpp"

namespace meshplan {

// kModelled: it is part of the model or the strategy. kNoEffect: it changes neither time nor memory
// of a training step. kNotModelled: it does, and the estimate leaves it out.
enum class OptionEffect : std::uint8_t { kModelled, kNoEffect, kNotModelled };
MESHPLAN_NAMES(OptionEffect, {{OptionEffect::kModelled, "modelled"},
                              {OptionEffect::kNoEffect, "no-effect"},
                              {OptionEffect::kNotModelled, "not-modelled"}});

struct OptionGroup {
  OptionEffect effect;
  // What the options are about; of those that are not modelled, what the estimate does instead.
  std::string_view what;
  // Names without dashes between blanks: "lr", which takes one value; "bf16/0", which takes none;
  // "data-path/*" and "mrope-section/+", which take any number; "rampup-batch-size/3". Behind "=",
  // values with "|" between them: of what is not modelled those (of several, the last) with which
  // an option says what the estimate does anyway, else all that the option has.
  std::string_view names;
};

struct KnownOption {
  OptionEffect effect = OptionEffect::kNoEffect;
  std::string_view what;
  char arity = '1';         // a digit, '*' or '+'
  std::string_view listed;  // values: "adam|Adam"

  // Whether the estimate leaves out what `value` asks for.
  [[nodiscard]] bool leaves_out(std::string_view value) const;
  // Whether it is one of the option's choices, where these are known, as a script, a configuration
  // (None, null) or an enumeration (AttnBackend.auto) writes it.
  [[nodiscard]] bool has_value(std::string_view value) const;
  // "native and te"
  [[nodiscard]] std::string choices() const;
};

[[nodiscard]] std::span<const OptionGroup> megatron_groups();
[[nodiscard]] std::span<const OptionGroup> megatron_groups_beside();
[[nodiscard]] std::span<const OptionGroup> megatron_deepspeed_groups();
[[nodiscard]] std::span<const OptionGroup> pai_groups();
[[nodiscard]] std::span<const OptionGroup> primus_groups();
[[nodiscard]] std::span<const OptionGroup> nemo_groups();

class OptionTable {
 public:
  // The first group that names an option says what it is.
  explicit OptionTable(std::initializer_list<std::span<const OptionGroup>> lists);

  // `name` with its dashes; nothing where no list has it.
  [[nodiscard]] std::optional<KnownOption> find(std::string_view name) const;
  // The option that may have been meant.
  [[nodiscard]] std::optional<std::string> nearest(std::string_view name) const;
  // Unknown options that are named one by one, each with the one that may have been meant: a text
  // with more of them is no argument list of this program.
  static constexpr std::size_t kMostNamed = 50;
  [[nodiscard]] const std::map<std::string, KnownOption, std::less<>>& all() const { return all_; }

 private:
  std::map<std::string, KnownOption, std::less<>> all_;
};

// Of Megatron-LM's programs, with what Pai-Megatron-Patch and AMD Primus add.
[[nodiscard]] const OptionTable& megatron_options();
// Of Megatron-DeepSpeed's.
[[nodiscard]] const OptionTable& megatron_deepspeed_options();

// "there are no options of 7 more names": behind those that are named.
[[nodiscard]] std::string more_unknown_options(std::size_t count);

}  // namespace meshplan
