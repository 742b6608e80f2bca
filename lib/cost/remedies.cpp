#include "cost/remedies.hpp"

#include <algorithm>
#include <functional>

#include "base/text.hpp"
#include "cost/step.hpp"

namespace meshplan {
namespace {

struct Change {
  std::string text;
  std::function<bool(Strategy&)> apply;  // false: nothing to change
};

// Derived fields are derived again from the changed keys.
void forget_derived(Strategy& s) {
  s.dp = 0;
  s.stage_layers.clear();
  s.chunk_layers.clear();
  s.recompute_layers.clear();
}

std::vector<Change> single_changes(const ModelSpec& m) {
  std::vector<Change> changes;
  changes.push_back({"runtime.expandable_segments=true", [](Strategy& s) {
                       if (s.runtime.expandable_segments) return false;
                       return s.runtime.expandable_segments = true;
                     }});
  changes.push_back({"recompute=selective", [](Strategy& s) {
                       if (s.recompute != Recompute::kNone) return false;
                       s.recompute = Recompute::kSelective;
                       s.offload.activations = false;  // not legal together
                       s.recompute_layers.clear();
                       return true;
                     }});
  changes.push_back({"recompute=full", [](Strategy& s) {
                       if (s.recompute == Recompute::kFull) return false;
                       s.recompute = Recompute::kFull, s.recompute_modules = {};
                       s.offload.activations = false;
                       s.recompute_layers.clear();
                       return true;
                     }});
  changes.push_back({"sequence_parallel=true", [](Strategy& s) {
                       if (s.sequence_parallel || s.tp == 1) return false;
                       return s.sequence_parallel = true;
                     }});
  changes.push_back({"half the micro_batch", [](Strategy& s) {
                       if (s.micro_batch % 2 != 0) return false;
                       s.micro_batch /= 2;
                       return true;
                     }});
  for (int zero = 1; zero <= 3; ++zero) {
    changes.push_back({"zero=" + std::to_string(zero), [zero](Strategy& s) {
                         if (s.zero >= zero) return false;
                         s.zero = zero;
                         return true;
                       }});
  }
  changes.push_back({"twice the tp", [](Strategy& s) {
                       s.tp *= 2, forget_derived(s);
                       return true;
                     }});
  changes.push_back({"twice the pp", [&m](Strategy& s) {
                       if (s.pp * 2 * s.vp > m.num_layers) return false;
                       s.pp *= 2, forget_derived(s);
                       s.offload.activations = false;
                       if (s.pp == 2) s.schedule = kPlainSchedule;
                       return true;
                     }});
  changes.push_back({"twice the cp", [](Strategy& s) {
                       s.cp *= 2, forget_derived(s);
                       return true;
                     }});
  if (m.moe) {
    changes.push_back({"twice the ep", [](Strategy& s) {
                         s.ep *= 2;
                         return true;
                       }});
  }
  changes.push_back({"offload.optimizer=true", [](Strategy& s) {
                       if (s.offload.optimizer) return false;
                       return s.offload.optimizer = true;
                     }});
  return changes;
}

struct Fit {
  Seconds step_time;
  std::string text;
};

void try_change(const ModelSpec& m, const ClusterSpec& c, const Strategy& s, std::string text,
                std::vector<Fit>& fits) {
  EvaluateOptions options;
  options.with_remedies = false;
  const Verdict v = evaluate(m, c, s, options);
  if (!v.feasible()) return;
  const Seconds step = v.cost().step_time;
  text +=
      ": fits in " + human_bytes(v.cost().memory().peak) + ", " + human_time(step) + " per step";
  fits.push_back({step, std::move(text)});
}

std::string more_devices(const ModelSpec& m, const ClusterSpec& c, const Strategy& s) {
  for (std::int64_t factor = 2; factor <= 64; factor *= 2) {
    ClusterSpec larger = with_gpus(c, num_gpus(c) * factor);
    Strategy wider = s;
    forget_derived(wider);
    EvaluateOptions options;
    options.with_remedies = false;
    for (const char* const how : {"", "pp", "zero=3"}) {
      Strategy tried = wider;
      tried.recompute = Recompute::kFull, tried.recompute_modules = {};
      tried.offload.activations = false;
      std::string text = how;
      if (text == "pp") tried.pp *= factor, text += "=" + std::to_string(tried.pp);
      if (text == "zero=3") tried.zero = 3;
      if (evaluate(m, larger, tried, options).feasible()) {
        return with_thousands(num_gpus(larger)) + " GPUs with recompute=full" +
               (text.empty() ? "" : " and " + text) + ": fits";
      }
    }
  }
  return {};
}

// What whoever fine-tunes can do with on few devices, in programs that have it: fewer bytes for
// each weight, or adapters alone. Not the same training, so it is said after what is.
std::vector<std::string> lighter_ways(const ModelSpec& m, const ClusterSpec& c, Strategy s) {
  if (has_own_models(s.framework) || has_adapters(s) || is_frozen(s) ||
      s.precision != Precision::kBf16) {
    return {};
  }
  s.recompute = Recompute::kFull, s.recompute_modules = {};
  s.recompute_layers.clear(), s.stage_layers.clear(), s.chunk_layers.clear();
  s.offload = {};
  std::vector<Fit> fits;
  Strategy small = s;
  small.master_weights = false;
  small.grad_dtype = Dtype::kBf16, small.optimizer_dtype = Dtype::kFp32;
  small.optimizer = num_gpus(s) == 1 ? Optimizer::kPagedAdam8bit : Optimizer::kAdam8bit;
  // In one microbatch no gradients need be held.
  small.micro_batch *= num_microbatches(small);
  small.runtime.optimizer_in_backward = true;
  if (!s.runtime.fused_linear_cross_entropy) small.runtime.loss_chunks = 8;
  std::string keys = "micro_batch=" + std::to_string(small.micro_batch) +
                     ", master_weights=false, grad_dtype=bf16, optimizer_dtype=fp32, optimizer=" +
                     std::string(name_of(small.optimizer)) + ", runtime.optimizer_in_backward=true";
  if (small.runtime.loss_chunks > 1) {
    keys += ", kernels.loss_chunks=" + std::to_string(small.runtime.loss_chunks);
  }
  try_change(
      m, c, small,
      "weights without an fp32 copy, states of 8 bits, updates in the backward pass (" + keys + ")",
      fits);
  for (const bool four_bits : {false, true}) {
    Strategy adapted = s;
    adapted.lora.rank = 16, adapted.lora.targets = lora_targets("all-linear");
    if (four_bits) adapted.lora.frozen_dtype = FrozenDtype::kNf4;
    const std::size_t before = fits.size();
    try_change(m, c, adapted,
               std::string("adapters alone, beside frozen weights") +
                   (four_bits ? " in nf4 (--task qlora)" : " (--task lora)"),
               fits);
    if (fits.size() > before) break;
  }
  std::vector<std::string> texts;
  for (Fit& fit : fits) texts.push_back(std::move(fit.text));
  return texts;
}

}  // namespace

std::vector<std::string> memory_remedies(const ModelSpec& m, const ClusterSpec& c,
                                         const Strategy& s) {
  const std::vector<Change> changes = single_changes(m);
  std::vector<Fit> fits;
  for (const Change& change : changes) {
    Strategy changed = s;
    if (change.apply(changed)) try_change(m, c, changed, change.text, fits);
  }
  if (fits.empty()) {
    for (std::size_t i = 0; i < changes.size(); ++i) {
      for (std::size_t j = i + 1; j < changes.size(); ++j) {
        Strategy changed = s;
        if (changes[i].apply(changed) && changes[j].apply(changed)) {
          try_change(m, c, changed, changes[i].text + " and " + changes[j].text, fits);
        }
      }
    }
  }
  std::stable_sort(fits.begin(), fits.end(),
                   [](const Fit& a, const Fit& b) { return a.step_time < b.step_time; });
  constexpr std::size_t kShown = 4;
  std::vector<std::string> texts;
  for (const Fit& fit : fits) {
    if (texts.size() < kShown) texts.push_back(fit.text);
  }
  // The host makes steps so slow that other ways are worth a word.
  const bool by_host_alone = std::all_of(texts.begin(), texts.end(), [](const std::string& text) {
    return text.find("offload.optimizer=true") != std::string::npos;
  });
  if (texts.empty()) {
    if (std::string more = more_devices(m, c, s); !more.empty()) texts.push_back(std::move(more));
  }
  if (by_host_alone) {
    for (std::string& way : lighter_ways(m, c, s)) texts.push_back(std::move(way));
  }
  return texts;
}

}  // namespace meshplan
