#pragma once
// Which training code a strategy is for. Frameworks are data (lib/frameworks, and files of the same
// rows), so a framework is a name here; the few that the rules of the program know have constants.
#include <string_view>

namespace meshplan {

// A name that lives as long as the program: a literal, or a row of the presets' table.
class LastingName {
 public:
  constexpr LastingName() = default;
  constexpr explicit LastingName(std::string_view lasting) : text_(lasting) {}

  [[nodiscard]] constexpr std::string_view text() const { return text_; }
  bool operator==(const LastingName&) const = default;

 private:
  std::string_view text_;
};

class Framework : public LastingName {
 public:
  using LastingName::LastingName;
  static const Framework kMegatron, kMegatronDeepspeed, kDeepspeed, kFsdp, kTorchtitan;
  bool operator==(const Framework&) const = default;
};
inline constexpr Framework Framework::kMegatron{"megatron"};
inline constexpr Framework Framework::kMegatronDeepspeed{"megatron-deepspeed"};
inline constexpr Framework Framework::kDeepspeed{"deepspeed"};
inline constexpr Framework Framework::kFsdp{"fsdp"};
inline constexpr Framework Framework::kTorchtitan{"torchtitan"};

// Models and losses are the framework's own, so that what patches Hugging Face's (Liger's kernels,
// offloaded checkpoints) is not there.
[[nodiscard]] constexpr bool has_own_models(Framework f) {
  return f == Framework::kMegatron || f == Framework::kMegatronDeepspeed ||
         f == Framework::kTorchtitan;
}

// DeepSpeed's engine around a model that brings its own tensor and pipeline parallelism.
[[nodiscard]] constexpr bool splits_itself(Framework f) {
  return f == Framework::kMegatronDeepspeed;
}

// A release of the strategy's framework, as the presets name it. Empty: the newest.
class Release : public LastingName {
 public:
  using LastingName::LastingName;
  bool operator==(const Release&) const = default;
};

[[nodiscard]] constexpr std::string_view name_of(Framework f) { return f.text(); }
[[nodiscard]] constexpr std::string_view name_of(Release r) { return r.text(); }

}  // namespace meshplan
