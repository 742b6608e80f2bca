// Rules of switches that stand for themselves.
#include "spec/strategy_rules.hpp"

namespace meshplan {

void check_switches(const Plan& p, Findings& f) {
  const Strategy& s = p.s;
  const bool gathers = s.overlap.param_gather && s.zero == 1 && s.vp > 1;
  if (s.overlap.param_gather_with_optimizer_step && !gathers) {
    f.warning({"overlap.param_gather_with_optimizer_step"},
              "'overlap.param_gather_with_optimizer_step' does nothing: it is of several chunks a "
              "rank (vp) with zero=1 and 'overlap.param_gather'");
  }
  const bool owners = s.optimizer == Optimizer::kMuon && s.runtime.layer_wise_optimizer;
  if (!s.runtime.layer_wise_param_layout && !(owners && s.zero == 1)) {
    f.warning({"runtime.layer_wise_param_layout"},
              "'runtime.layer_wise_param_layout' does nothing: no matrices have owners (optimizer "
              "muon with zero=1 and 'runtime.layer_wise_optimizer')");
  }
}

}  // namespace meshplan
