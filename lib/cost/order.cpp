#include "cost/order.hpp"

#include <array>
#include <cmath>

namespace meshplan {
namespace {

constexpr std::array kTerms{&TimeTerms::compute,
                            &TimeTerms::recompute,
                            &TimeTerms::tp_comm_exposed,
                            &TimeTerms::cp_comm_exposed,
                            &TimeTerms::ep_comm_exposed,
                            &TimeTerms::pp_comm_exposed,
                            &TimeTerms::pp_bubble,
                            &TimeTerms::dp_comm_exposed,
                            &TimeTerms::optimizer,
                            &TimeTerms::uneven,
                            &TimeTerms::other};

double difference(const PlanCost& a, const PlanCost& b, Seconds TimeTerms::*term) {
  return std::abs((a.time.*term - b.time.*term).si());
}

}  // namespace

double differing_share(const PlanCost& a, const PlanCost& b) {
  double sum = 0;
  for (const auto term : kTerms) sum += difference(a, b, term);
  return sum / (a.step_time + b.step_time).si();
}

double probability_faster(const PlanCost& a, const PlanCost& b, const MeasuredErrors& errors) {
  const double log_ratio = std::log(b.step_time / a.step_time);
  const double scale = errors.order_floor + errors.order_spread * differing_share(a, b);
  return 1 / (1 + std::exp(-log_ratio / scale));
}

bool practically_tied(const PlanCost& a, const PlanCost& b, const MeasuredErrors& errors) {
  const double first = probability_faster(a, b, errors);
  return first < kSureOrder && first > 1 - kSureOrder;
}

Seconds TimeTerms::*separating_term(const PlanCost& a, const PlanCost& b) {
  Seconds TimeTerms::*largest = kTerms.front();
  for (const auto term : kTerms) {
    if (difference(a, b, term) > difference(a, b, largest)) largest = term;
  }
  return largest;
}

}  // namespace meshplan
