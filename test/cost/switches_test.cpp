// Options of Megatron-LM that stand for themselves.
#include "comm/collectives.hpp"
#include "cost/block.hpp"
#include "cost/data_parallel.hpp"
#include "cost/step.hpp"
#include "cost/support.hpp"
#include "support/catch.hpp"

using namespace meshplan;
using namespace meshplan::test;

TEST_CASE("[F-DATA-1] a mask of all pairs of tokens goes to the device and to tensor ranks") {
  const ModelSpec m = plain_gpt();
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(2, 2, 2);
  s.micro_batch = 4;
  const auto forward = [&](std::size_t block) {
    Seconds sum;
    const auto blocks = block_ops(m, c, s);
    for (const KernelOp& op : blocks[block].kernels) {
      if (op.pass == Pass::kForward) sum += op.time;
    }
    return sum;
  };
  const std::size_t first = 0, head = block_ops(m, c, s).size() - 1;
  const Seconds before = forward(first), last = forward(head);
  s.runtime.create_attention_mask_in_dataloader = true;
  const Bytes mask{4LL * 2048 * 2048};
  const GroupShape pair = group_shape(s, c, Group::kTp);
  const Seconds sent = collective_time(c, Collective::kBroadcast, mask, pair).total;
  CHECK((forward(first) - before).si() == Approx(mask.si() / 25e9 + sent.si()));
  CHECK(forward(head) == last);
  s.tp = 1, s.dp = 4;
  const Seconds with = forward(first);
  s.runtime.create_attention_mask_in_dataloader = false;
  CHECK((with - forward(first)).si() == Approx(mask.si() / 25e9));
}

TEST_CASE("[F-OPT-9] checked gradients are read once more, and losses by a few kernels") {
  Strategy s = plain_strategy(2, 2, 2);
  s.grad_dtype = Dtype::kFp32;
  const BlockParameters p{1'000'000, 500'000};
  const double without = optimizer_traffic(s, p);
  const auto head_launches = [&] {
    double sum = 0;
    const auto blocks = block_ops(plain_gpt(), plain_cluster(8), s);
    for (const KernelOp& op : blocks.back().kernels) sum += op.launches;
    return sum;
  };
  const double before = head_launches();
  s.runtime.check_for_nan_in_loss_and_grad = true;
  CHECK(optimizer_traffic(s, p) - without == Approx(4 * 1.5e6));
  CHECK(head_launches() - before == 5);
}

TEST_CASE("[F-OPT-8] one rank alone scales its gradients by tokens, once") {
  Strategy s = plain_strategy(1, 1, 1);
  s.grad_dtype = Dtype::kFp32;
  const BlockParameters p{1'000'000, 0};
  const auto more = [&] {
    s.runtime.calculate_per_token_loss = false;
    const double without = optimizer_traffic(s, p);
    s.runtime.calculate_per_token_loss = true;
    return optimizer_traffic(s, p) - without;
  };
  CHECK(more() == Approx(2 * 4 * 1e6));  // read and written
  s.dp = 2;                              // others are scaled by the number of ranks anyway
  CHECK(more() == 0);
}

TEST_CASE("[F-DP-8] the first chunk's weights are gathered while others are updated") {
  const ModelSpec m = plain_gpt(16);
  const ClusterSpec c = plain_cluster(16);
  Strategy s = plain_strategy(1, 2, 8);
  s.vp = 4, s.schedule = Schedule::kInterleaved;
  s.zero = 1;
  s.overlap.grad_reduce = s.overlap.param_gather = true;
  const Strategy whole = complete(s, m, c);
  const StepEndGroups groups = step_end_groups(m, c, whole);
  const RankEnd rank = rank_end(m, c, whole, groups, {1'000'000'000, 0});
  const auto exposed = [&](const Strategy& of) {
    return step_end(c, of, rank, Seconds{10}, Seconds{10}).exposed.si();
  };
  Strategy early = whole;
  early.overlap.param_gather_with_optimizer_step = true;
  // A bucket of 40 M weights of 2 bytes, or three quarters of the update if that is less.
  const double bucket = rank.weights.all[0].each.si() * 40e6 / 1e9;
  const double update = rank.optimizer.si() * 3 / 4;
  CHECK(exposed(whole) - exposed(early) == Approx(std::min(bucket, update)));
  early.vp = 1;
  CHECK(exposed(early) == exposed([&] {
          Strategy one = whole;
          one.vp = 1;
          return one;
        }()));
}

TEST_CASE("[F-DP-7] owners that are scattered all-reduce, and one has the whole table") {
  const ModelSpec m = plain_gpt(4);
  const ClusterSpec c = plain_cluster(8);
  Strategy s = plain_strategy(1, 1, 8);
  s.optimizer = Optimizer::kMuon;
  s.zero = 1;
  s.runtime.layer_wise_optimizer = true;
  Strategy scattered = s;
  scattered.runtime.layer_wise_param_layout = false;
  const PlanCost even = cost_of(m, c, complete(s, m, c));
  const PlanCost odd = cost_of(m, c, complete(scattered, m, c));
  // Adam's 12 bytes of the tied table, of which a rank has an eighth else.
  const std::int64_t table = 51200LL * 4096 * 12;
  CHECK(odd.memory().optimizer - even.memory().optimizer == Bytes{table - table / 8});
  const RankEnd end =
      rank_end(m, c, complete(scattered, m, c), step_end_groups(m, c, scattered), {1'000'000, 0});
  CHECK(end.gradients.all[0].op == Collective::kAllReduce);
  const BlockParameters p{1'000'000, 0};
  CHECK(optimizer_traffic(scattered, p) - optimizer_traffic(s, p) == Approx(2 * 2 * 1e6));
}
