// First products of a part of a layer: several matrices that read one input.
#include <array>

#include "model/parts.hpp"

namespace meshplan {

LinearTimes append_split_linear(const BlockContext& x, std::string_view name,
                                std::span<const Projection> parts, std::int64_t tokens,
                                std::int64_t k, bool bias, BlockOps& ops, const AdapterSite& site) {
  std::int64_t columns = 0;
  for (const Projection& part : parts) columns += part.columns;
  if (!x.strategy.runtime.split_projections) {
    return append_linear(x, name, tokens, columns, k, bias, ops, 1, &site);
  }
  LinearTimes sum;
  std::int64_t products = 0;
  for (const Projection& part : parts) {
    if (part.columns == 0) continue;
    const LinearTimes t = append_linear(x, part.name, tokens, part.columns, k, bias, ops);
    sum.forward += t.forward;
    sum.backward_input += t.backward_input;
    sum.backward_weight += t.backward_weight;
    if (++products > 1) append_gradient_sum(x, tokens * k, ops);
  }
  if (is_frozen(x.strategy)) append_adapters(x, site, tokens, columns, k, ops);
  return sum;
}

LinearTimes append_mlp_first(const BlockContext& x, std::string_view whole, std::int64_t tokens,
                             std::int64_t ffn, bool bias, BlockOps& ops) {
  const AdapterSite site = first_mlp_site(x.model, ffn);
  const std::array<Projection, 2> parts{{{"mlp gate", x.model.gated_mlp ? ffn : 0}, {whole, ffn}}};
  return append_split_linear(x, whole, parts, tokens, x.shape.hidden, bias, ops, site);
}

}  // namespace meshplan
