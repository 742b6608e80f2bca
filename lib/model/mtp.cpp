// Multi-token prediction.
#include "model/kinds.hpp"
#include "model/parts.hpp"

namespace meshplan {

// [F-MTP-1] Multi-token prediction joins the hidden state with the next token's embedding: two
// norms and a projection of 2h to h before one more decoder layer (DeepSeek-V3, 2412.19437, 2.2).
void append_mtp_projection(const BlockContext& x, BlockOps& ops) {
  const LocalShape& l = x.shape;
  append_norm(x, "mtp norm", l.norm_tokens * l.hidden, ops);
  append_norm(x, "mtp embedding norm", l.norm_tokens * l.hidden, ops);
  append_linear(x, "mtp projection", l.tokens, ceil_div(l.hidden, x.strategy.tp), 2 * l.hidden,
                false, ops);
}

}  // namespace meshplan
