// Passes of single layers and microbatches inside of a trace.
#include "compare/trace_passes.hpp"

#include "support/catch.hpp"

namespace meshplan {
namespace {

// A step of two microbatches through three layers, with the embedding before and the loss behind,
// as one device computes it: each layer a product, attention and another product.
class PassesTrace {
 public:
  PassesTrace() {
    for (const char* name : {"nvjet_product", "flash_fwd_kernel", "flash_bwd_dq_dk_dv_kernel",
                             "flash_bwd_dot_do_o_kernel", "softmax_cross_entropy",
                             "multi_tensor_apply_kernel AdamFunctor", "ncclDevKernel_AllReduce"}) {
      trace.names.push_back(classified(name));
    }
  }

  void forward(double slow = 1) {
    add(0, 10 * slow, Direction::kForward);
    add(1, 20 * slow, Direction::kForward);
    now_ += 5;  // idle
    add(0, 30 * slow, Direction::kForward);
  }
  void backward(double slow = 1) {
    add(0, 60 * slow, Direction::kBackward);
    add(3, 2, Direction::kBackward);
    add(2, 50 * slow, Direction::kBackward);
    add(0, 20 * slow, Direction::kBackward);
  }
  void loss() { add(4, 7, Direction::kForward); }
  void optimizer() { add(5, 40, Direction::kForward); }
  void microbatch(double slow_layer = 1, double slow = 1) {
    add(0, 3, Direction::kForward);  // the embedding
    for (int i = 0; i < 3; ++i) forward(i == 1 ? slow_layer : slow);
    loss();
    for (int i = 0; i < 3; ++i) backward(slow);
  }
  // Beside what comes next.
  void reduction(double duration) {
    DeviceOp op;
    op.start = now_, op.duration = duration, op.name = 6;
    op.direction = Direction::kBackward;
    trace.ops.push_back(op);
  }

  DeviceTrace trace;

 private:
  void add(std::uint32_t name, double duration, Direction d) {
    DeviceOp op;
    op.start = now_, op.duration = duration, op.name = name, op.direction = d;
    trace.ops.push_back(op);
    now_ += duration;
  }
  double now_ = 0;
};

TEST_CASE("passes of layers lie between their calls of fused attention") {
  PassesTrace t;
  for (int step = 0; step < 2; ++step) {
    t.microbatch();
    t.reduction(500);
    t.microbatch();
    t.optimizer();
  }
  const std::vector<LayerPasses> all = layer_passes(t.trace, 2, 3, 1);
  REQUIRE(all.size() == 2);
  CHECK(all[0].direction == Direction::kForward);
  CHECK(all[0].count == 8);  // two between three layers, of four microbatches
  CHECK(all[0].median.si() == Approx(60e-6));
  CHECK(all[0].elapsed.si() == Approx(65e-6));
  CHECK(all[1].count == 8);
  CHECK(all[1].median.si() == Approx(132e-6));
  CHECK(all[1].slowest.si() == Approx(132e-6));
  REQUIRE(all[0].layers.size() == 3);
  CHECK(all[0].layers[0].si() == Approx(60e-6));
  CHECK(all[0].layers[2] == Seconds{});  // the loss is behind it
  REQUIRE(all[1].layers.size() == 3);
  CHECK(all[1].layers[2].si() == Approx(132e-6));
  CHECK(all[1].layers[0] == Seconds{});
  REQUIRE(all[0].microbatches.size() == 2);
  CHECK(all[0].microbatches[1].si() == Approx(120e-6));
}

TEST_CASE("a layer and a microbatch that take longer are found") {
  PassesTrace t;
  t.microbatch(2);
  t.microbatch(2);
  t.microbatch(2, 3);
  t.optimizer();
  const std::vector<LayerPasses> all = layer_passes(t.trace, 1, 3, 1);
  REQUIRE(all.size() == 2);
  CHECK(all[0].layers[1] > all[0].layers[0] * 0.9);
  CHECK(all[0].microbatches[2] > all[0].microbatches[0] * 1.2);
  CHECK(all[1].microbatches[2].si() == Approx(all[1].microbatches[0].si() * 3).epsilon(0.05));
  CHECK(all[1].slowest > all[1].median * 2);
}

TEST_CASE("repeated forward passes count to the backward pass") {
  PassesTrace t;
  t.microbatch();
  for (DeviceOp& op : t.trace.ops) {
    if (op.name == 2) op.direction = Direction::kBackward;
  }
  // The forward kernel that the thread of the backward pass runs again.
  DeviceOp again = t.trace.ops[2];
  again.start = t.trace.ops.back().start + 100;
  again.direction = Direction::kBackward;
  t.trace.ops.push_back(again);
  const std::vector<LayerPasses> all = layer_passes(t.trace, 1, 3, 1);
  REQUIRE(all.size() == 2);
  CHECK(all[0].count == 2);
}

TEST_CASE("without fused attention, with few calls or several chunks less is told") {
  PassesTrace none;
  none.optimizer();
  CHECK(layer_passes(none.trace, 1, 3, 1).empty());
  PassesTrace one;
  one.forward();
  CHECK(layer_passes(one.trace, 1, 3, 1).empty());
  PassesTrace chunks;
  chunks.microbatch();
  const std::vector<LayerPasses> told = layer_passes(chunks.trace, 1, 3, 2);
  REQUIRE(told.size() == 2);
  CHECK(told[0].layers.empty());
  CHECK(layer_passes(chunks.trace, 1, 5, 1)[0].layers.empty());  // another model ran
  CHECK(layer_passes(chunks.trace, 0, 3, 1)[0].microbatches.empty());
}

}  // namespace
}  // namespace meshplan
