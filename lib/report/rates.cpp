#include "report/rates.hpp"

#include "base/check.hpp"

namespace meshplan {

Rates rates(const PlanCost& p, const ClusterSpec& c) {
  const auto gpus = static_cast<double>(num_gpus(p.strategy));
  PLAN_CHECK(p.step_time.si() > 0 && gpus > 0);
  Rates r;
  r.tokens_per_s = p.tokens_per_step / p.step_time.si();
  r.tokens_per_s_per_gpu = r.tokens_per_s / gpus;
  r.model_flops_per_gpu = p.model_flops / p.step_time / gpus;
  constexpr double kSecondsPerHour = 3600;
  if (c.usd_per_gpu_hour) {
    r.usd_per_step = gpus * p.step_time.si() * *c.usd_per_gpu_hour / kSecondsPerHour;
  }
  return r;
}

Seconds exposed_communication(const TimeTerms& t) {
  return t.tp_comm_exposed + t.cp_comm_exposed + t.ep_comm_exposed + t.pp_comm_exposed +
         t.dp_comm_exposed;
}

}  // namespace meshplan
