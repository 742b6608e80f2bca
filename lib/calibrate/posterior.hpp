#pragma once
// What a few measured runs say about a model whose parameters are roughly known beforehand.
#include <span>
#include <vector>

#include "calibrate/parameters.hpp"
#include "spec/seen_run.hpp"

namespace meshplan {

// Parameters are said to be learned where the runs moved them, or their deviation, by more than
// this share of their doubt.
inline constexpr double kToldApart = 0.05;

struct Posterior {
  ParameterFit fit;           // predictions after with what the runs say of each other
  std::vector<SeenRun> seen;  // in the order of the observations
};

// [F-CAL-10] Mean of the posterior of ln of every parameter, whose ln(predicted / measured) is
//   e = J x + g + r,  x ~ N(0, (a w)^2),  g ~ N(0, c^2 K),  r ~ Student's t of scale c,
// w = ln(1 + doubt), K: alikeness of errors ([F-CAL-12]), over a = 1/2, 1, 2, 4, of weight 1 / a^2,
// and c = 2, 4, 8 and 16 %, alike, each case as likely as it makes the runs. Nobody knows how far a
// machine is from what ships, nor how well its code is modelled: sources whose runs agree move
// parameters, sources whose runs contradict each other do not (a mean over models: Hoeting and
// others 1999). A run that does not fit is not followed (Lange, Little and Taylor 1989; O'Hagan
// 1979), and runs that are made of the same parts count little more than one of them, as what the
// model gets wrong of one it gets wrong of the others. J anew where the parameters get to, until
// they stay. Parameters that the runs do not tell stay where they are.
// `fitted`: learned (kToldApart). Fails where a measurement is not above zero.
[[nodiscard]] Result<Posterior> update_parameters(std::span<const Parameter> parameters,
                                                  std::span<const Observation> observations,
                                                  const Predictor& predict,
                                                  LeaveOneOut leave_one_out = LeaveOneOut::kYes);

}  // namespace meshplan
