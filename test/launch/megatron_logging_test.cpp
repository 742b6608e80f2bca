// What Megatron-LM logs each step takes time of the host.

#include "frameworks/preset.hpp"
#include "launch/megatron_reading.hpp"

namespace meshplan {
namespace {

using test::small_run;

double launches_of_step(const std::string& options) {
  return small_run(options).strategy.runtime.step_launches;
}

}  // namespace

TEST_CASE("lines of the log, norms and counted zeros are the host's work of a step") {
  const double each = launches_of_step("--log-interval 1");
  CHECK(each > 0);
  CHECK(launches_of_step("") == 0);  // Megatron-LM's --log-interval is 100 where none is given
  CHECK(launches_of_step("--log-interval 10") == each / 10);
  CHECK(launches_of_step("--log-interval 1 --log-params-norm") > each);
  const Runtime preset = framework_preset(Framework::kMegatron).runtime;
  CHECK(small_run("").strategy.runtime.optimizer_launches == preset.optimizer_launches);
  CHECK(small_run("--log-num-zeros-in-grad").strategy.runtime.optimizer_launches ==
        preset.optimizer_launches + 1);
}

TEST_CASE("an interval of no steps is read as each step") {
  CHECK(launches_of_step("--log-interval 0") == launches_of_step("--log-interval 1"));
}

}  // namespace meshplan
