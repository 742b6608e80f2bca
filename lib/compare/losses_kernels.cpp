// Kernels that run otherwise than the strategy says: not fused, more often, or slower.
#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "compare/losses_parts.hpp"

namespace meshplan {
namespace {

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

std::string counts(const OpTime& m, const OpTime& p) {
  return with_thousands(std::llround(m.count)) + " kernels a step, " +
         with_thousands(std::llround(p.count)) + " predicted; " + against(m.time, p.time);
}

// How often layers run forward, of what is predicted; 0 where no name tells.
double forward_runs(const LossContext& x) {
  return ratio(x.device().attention_forward, x.t.attention_forward);
}

// Attention as products and a softmax of its own.
bool find_unfused_attention(const LossContext& x, std::vector<TimeLoss>& all) {
  const OpTime fused = x.measured(OpClass::kAttention), expected = x.predicted(OpClass::kAttention);
  const OpTime softmax = x.measured(OpClass::kSoftmax);
  if (!(expected.count > 0) || fused.count > expected.count * 0.1) return false;
  const Seconds more = x.more(OpClass::kSoftmax) + x.more(OpClass::kProduct) +
                       x.more(OpClass::kElementwise) + x.more(OpClass::kAttention);
  if (more < x.least || softmax.count <= x.predicted(OpClass::kSoftmax).count) return false;
  TimeLoss f;
  f.kind = LossKind::kUnfusedAttention;
  f.what = "attention runs unfused";
  f.evidence = "no kernel of fused attention, " + with_thousands(std::llround(softmax.count)) +
               " of softmax a step; " + human_time(more) + " more than fused";
  f.remedy =
      "--attention-backend flash (--use-flash-attn before Megatron-Core 0.11), and look why "
      "the fused kernel was refused: head size, mask or data type";
  f.lost = more;
  const auto without = x.step_with([](Strategy& s) { s.flash_attention = false; });
  if (without && *without > x.plan.step_time) f.gain = *without - x.plan.step_time;
  all.push_back(std::move(f));
  return true;
}

// Layers that run forward again, which the strategy does not say.
bool find_recomputation(const LossContext& x, std::vector<TimeLoss>& all) {
  const Strategy& s = x.plan.strategy;
  const OpTime products = x.measured(OpClass::kProduct), expected = x.predicted(OpClass::kProduct);
  const double more_products = ratio(products.count, expected.count);
  if (s.recompute == Recompute::kFull || forward_runs(x) < 1.3 || more_products < 1.2 ||
      more_products > 1.6) {
    return false;
  }
  // The same products, as long each: else the micro-batch differs.
  const double each =
      ratio(ratio(products.time.si(), products.count), ratio(expected.time.si(), expected.count));
  if (each < 0.75) return false;
  TimeLoss f;
  f.kind = LossKind::kRecomputation;
  f.what = "layers are recomputed, which the strategy does not say";
  f.evidence = "attention runs " + fixed(forward_runs(x), 2) + " times as often as predicted, " +
               "products " + fixed(more_products, 2) + " times";
  f.remedy = "leave out --recompute-granularity full where the memory allows it";
  f.lost = x.more(OpClass::kProduct) + x.more(OpClass::kAttention) + x.more(OpClass::kNorm) +
           x.more(OpClass::kElementwise);
  const auto full = x.step_with([](Strategy& changed) {
    changed.recompute = Recompute::kFull;
    changed.recompute_modules = {};
    changed.recompute_layers.clear();
  });
  if (full && *full > x.plan.step_time) f.gain = *full - x.plan.step_time;
  all.push_back(std::move(f));
  return true;
}

// Everything runs more often and takes shorter each time.
bool find_small_microbatch(const LossContext& x, std::vector<TimeLoss>& all) {
  const OpTime m = x.measured(OpClass::kProduct), p = x.predicted(OpClass::kProduct);
  const double more = ratio(m.count, p.count);
  const double each = ratio(ratio(m.time.si(), m.count), ratio(p.time.si(), p.count));
  if (more < 1.6 || each > 0.85 || std::abs(more - std::round(more)) > 0.2) return false;
  // Products that are split over kernels are more and smaller as well; attention is not.
  if (x.t.attention_forward > 0 && forward_runs(x) < 0.8 * more) return false;
  const auto times = std::llround(more);
  TimeLoss f;
  f.kind = LossKind::kSmallMicrobatch;
  f.what = "the micro-batch is " + std::to_string(times) + " times smaller than the strategy says";
  f.evidence = "products run " + fixed(more, 2) + " times as often and take " +
               human_percent(each) + " as long each";
  f.lost = x.t.step - x.plan.step_time;
  f.remedy = "--micro-batch-size " + std::to_string(x.plan.strategy.micro_batch);
  const auto smaller = x.step_with([&](Strategy& s) {
    if (s.micro_batch % times == 0) s.micro_batch /= times;
  });
  if (smaller && *smaller > x.plan.step_time) f.gain = *smaller - x.plan.step_time;
  all.push_back(std::move(f));
  return true;
}

void find_norms(const LossContext& x, std::vector<TimeLoss>& all) {
  const OpTime m = x.measured(OpClass::kNorm), p = x.predicted(OpClass::kNorm);
  const Seconds more = x.more(OpClass::kNorm) + x.more(OpClass::kElementwise);
  const bool missing = p.count > 0 && m.count < p.count * 0.1;
  if (!missing || more < x.least || !x.plan.strategy.runtime.fused_norm) return;
  TimeLoss f;
  f.kind = LossKind::kUnfusedNorm;
  f.what = "norms run unfused";
  f.evidence = counts(m, p) + "; element-wise: " +
               counts(x.measured(OpClass::kElementwise), x.predicted(OpClass::kElementwise));
  f.remedy = "--transformer-impl transformer_engine, or apex's norms, or torch.compile";
  f.lost = more;
  const auto without = x.step_with([](Strategy& s) { s.runtime.fused_norm = false; });
  if (without && *without > x.plan.step_time) f.gain = *without - x.plan.step_time;
  all.push_back(std::move(f));
}

bool has(const std::vector<TimeLoss>& all, LossKind kind) {
  return std::any_of(all.begin(), all.end(), [&](const TimeLoss& f) { return f.kind == kind; });
}

// The update as a chain of element-wise kernels for every parameter.
void find_optimizer(const LossContext& x, std::vector<TimeLoss>& all) {
  const OpTime m = x.measured(OpClass::kOptimizer), p = x.predicted(OpClass::kOptimizer);
  TimeLoss f;
  if (p.time.si() > 0 && m.count == 0 && x.more(OpClass::kElementwise) >= x.least) {
    f.kind = LossKind::kUnfusedOptimizer;
    f.what = "the optimizer's update runs unfused";
    f.evidence = "no kernel of a fused update; element-wise: " +
                 counts(x.measured(OpClass::kElementwise), x.predicted(OpClass::kElementwise));
    f.remedy = "apex's or Transformer Engine's FusedAdam, PyTorch's AdamW(fused=True)";
    f.lost = x.more(OpClass::kElementwise) - p.time;
    const auto without = x.step_with([](Strategy& s) { s.runtime.fused_optimizer = false; });
    if (without && *without > x.plan.step_time) f.gain = *without - x.plan.step_time;
  } else if (x.more(OpClass::kOptimizer) >= x.least) {
    f.kind = LossKind::kOptimizer;
    f.what = "the optimizer's step takes longer than predicted";
    f.evidence = against(m.time, p.time);
    f.lost = x.more(OpClass::kOptimizer);
    f.remedy = "look what data types its states have";
    if (x.plan.strategy.zero == 0 && x.plan.strategy.dp > 1) {
      f.gain = x.gain_of([](Strategy& s) { s.zero = 1; });
      f.remedy = "--use-distributed-optimizer shares it out over data-parallel ranks";
      f.changes = f.gain ? "zero=1" : "";
    }
  } else {
    return;
  }
  all.push_back(std::move(f));
}

void find_elementwise(const LossContext& x, std::vector<TimeLoss>& all) {
  const OpTime m = x.measured(OpClass::kElementwise), p = x.predicted(OpClass::kElementwise);
  if (x.more(OpClass::kElementwise) < x.least) return;
  TimeLoss f;
  f.kind = LossKind::kUnfusedElementwise;
  f.what = m.count > p.count * 1.3 ? "element-wise kernels run unfused"
                                   : "element-wise kernels move more bytes than predicted";
  f.evidence = counts(m, p);
  f.remedy =
      "Megatron-LM's fusions are on unless --no-bias-swiglu-fusion, --no-rope-fusion and "
      "their like are passed; torch.compile elsewhere";
  f.lost = x.more(OpClass::kElementwise);
  const auto without = x.step_with([](Strategy& s) {
    s.runtime.fused_rope = s.runtime.fused_activation = s.runtime.fused_dropout_add = false;
  });
  if (without && *without > x.plan.step_time) f.gain = *without - x.plan.step_time;
  all.push_back(std::move(f));
}

void find_attention(const LossContext& x, std::vector<TimeLoss>& all) {
  const OpTime m = x.measured(OpClass::kAttention), p = x.predicted(OpClass::kAttention);
  if (!(m.count > 0) || x.more(OpClass::kAttention) < x.least) return;
  const double longer = ratio(m.time.si(), p.time.si());
  TimeLoss f;
  f.kind = LossKind::kAttention;
  f.what = "fused attention takes " + fixed(longer, 1) + " times as long as predicted";
  f.evidence = counts(m, p);
  f.remedy = longer > 1.7
                 ? "look whether the causal mask is passed as one (is_causal), not as a tensor: "
                   "else all scores are computed"
                 : "look which of the fused kernels runs: --attention-backend fused or flash";
  f.lost = x.more(OpClass::kAttention);
  all.push_back(std::move(f));
}

void find_routing(const LossContext& x, std::vector<TimeLoss>& all) {
  if (x.more(OpClass::kRouting) < x.least) return;
  TimeLoss f;
  f.kind = LossKind::kRouting;
  f.what = "sorting tokens to experts takes longer than predicted";
  f.evidence = counts(x.measured(OpClass::kRouting), x.predicted(OpClass::kRouting));
  // Of the two options those that are off.
  const Runtime& k = x.plan.strategy.runtime;
  std::string options;
  const auto fuse = [&](bool fused, const char* key, const char* option) {
    if (fused) return;
    f.changes += std::string(f.changes.empty() ? "" : ",") + key + "=true";
    options += std::string(options.empty() ? "" : " and ") + option;
  };
  fuse(k.fused_permute, "kernels.fused_permute", "--moe-permute-fusion");
  fuse(k.fused_router, "kernels.fused_router", "--moe-router-fusion");
  if (x.plan.strategy.framework != Framework::kMegatron) {
    f.remedy = "look for kernels that choose experts and sort tokens to them in one piece";
  } else if (options.empty()) {
    f.remedy = "look whether --moe-permute-fusion and --moe-router-fusion act";
  } else {
    f.remedy = "pass " + options;
  }
  if (!f.changes.empty()) {
    f.gain = x.gain_of([](Strategy& changed) {
      changed.runtime.fused_permute = changed.runtime.fused_router = true;
    });
  }
  f.lost = x.more(OpClass::kRouting);
  all.push_back(std::move(f));
}

}  // namespace

void find_kernels(const LossContext& x, std::vector<TimeLoss>& all) {
  if (find_small_microbatch(x, all)) return;
  if (find_recomputation(x, all)) return;
  const bool unfused = find_unfused_attention(x, all);
  find_norms(x, all);
  find_optimizer(x, all);
  // What these add to element-wise kernels is theirs.
  if (!unfused && !has(all, LossKind::kUnfusedNorm) && !has(all, LossKind::kUnfusedOptimizer)) {
    find_elementwise(x, all);
  }
  if (!unfused) find_attention(x, all);
  find_routing(x, all);
}

}  // namespace meshplan
