// Documents of uneven length and the rows that they are put into.
#include <cmath>
#include <string>

#include "base/text.hpp"
#include "spec/strategy_rules.hpp"

namespace meshplan {
namespace {}  // namespace

void check_documents(const Plan& p, Findings& f) {
  if (!p.m.lengths) {
    if (p.s.packing == Packing::kPack) return;
    f.warning({"packing"},
              "'packing' has no effect: the lengths of the documents are not known, and "
              "every sequence counts as full",
              "--lengths FILE");
    return;
  }
  const double most = longest(*p.m.lengths);
  if (p.s.seq_len > p.m.max_seq_length && most > static_cast<double>(p.m.max_seq_length)) {
    f.error({"seq_len", "lengths"},
            "documents of up to " + with_thousands(std::llround(most)) +
                " tokens are longer than the model's context of " +
                with_thousands(p.m.max_seq_length),
            "seq_len=" + std::to_string(p.m.max_seq_length) + " cuts them off");
  }
  const bool packs = p.s.packing == Packing::kPack || p.s.packing == Packing::kBalanced;
  if (packs && !p.s.flash_attention) {
    f.warning({"packing", "flash_attention"},
              "without fused attention the scores of whole rows are computed, and those between "
              "documents masked");
  }
  if (packs && p.s.cp > 1 && p.s.cp_kind == CpKind::kRing) {
    f.warning({"packing", "cp"}, "each document is padded to a multiple of 2 x cp = " +
                                     std::to_string(2 * p.s.cp) + " tokens, which is not counted");
  }
}

}  // namespace meshplan
