// No cliffs: what a neighbouring value of one key costs, over shipped models, clusters and
// frameworks. Bounds are wide enough for what the physics does and far tighter than a mistake.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "cost/memory.hpp"
#include "cost/step.hpp"
#include "io/load.hpp"
#include "support/catch.hpp"
#include "support/presets.hpp"

using namespace meshplan;

namespace {

struct Machine {
  const char* name;
  std::int64_t gpus;
};

struct Subject {
  const char* model;
  std::int64_t tp, pp, ep;
};

// Enough devices for the model, and a layout that its users publish.
const Subject kSubjects[] = {{"llama-2-7b", 1, 1, 1},      {"llama-3.1-8b", 2, 1, 1},
                             {"llama-3.1-70b", 4, 4, 1},   {"gpt3-175b", 8, 8, 1},
                             {"llama-3.1-405b", 8, 16, 1}, {"mixtral-8x7b", 1, 4, 8},
                             {"qwen3-235b-a22b", 4, 8, 8}};
const char* const kClusters[] = {"dgx-a100-80gb", "dgx-h100", "dgx-b200"};
const char* const kFrameworks[] = {"megatron", "megatron-deepspeed", "torchtitan", "nanotron"};

struct Point {
  std::string label;
  double mfu = 0;
  Seconds time;
  MemoryBreakdown memory;
};

struct Job {
  ModelSpec model;
  ClusterSpec cluster;
  Strategy strategy;
  std::string name;
};

std::vector<Job> jobs() {
  const DataFolders data({MESHPLAN_SOURCE_DIR});
  std::vector<Job> all;
  for (const Subject& subject : kSubjects) {
    for (const char* cluster : kClusters) {
      for (const std::string f : kFrameworks) {
        Job job;
        job.model = *load_model(subject.model, data);
        job.cluster = *load_cluster(cluster, data);
        Strategy s = shipped_strategy(f);
        // Cliffs of their own: where memory ends, and where tensor ranks beside pipeline messages
        // share a host (benchmarks/accuracy, nanotron's rows of tp = 8).
        s.runtime.retry_stall = s.runtime.contended_launches = 0;
        s.tp = subject.tp, s.pp = subject.pp, s.ep = subject.ep;
        s.dp = 8 * std::max<std::int64_t>(1, 8 / s.tp);
        s.sequence_parallel = s.tp > 1;
        s.zero = f == "torchtitan" ? 3 : 1;
        s.global_batch = 512 * s.dp;
        s.seq_len = 4096;
        job.strategy = s;
        job.name = std::string(subject.model) + " " + cluster + " " + f;
        all.push_back(job);
      }
    }
  }
  return all;
}

Point point(const Job& job, Strategy s, std::string label) {
  const ClusterSpec c = with_gpus(job.cluster, num_gpus(s));
  const PlanCost cost = cost_of(job.model, c, complete(std::move(s), job.model, c));
  return {std::move(label), cost.mfu, cost.step_time, cost.memory()};
}

using Change = std::function<void(Strategy&, std::int64_t)>;

std::vector<Point> sweep(const Job& job, const std::vector<std::int64_t>& values,
                         const Change& set) {
  std::vector<Point> points;
  for (const std::int64_t value : values) {
    Strategy s = job.strategy;
    set(s, value);
    points.push_back(point(job, s, job.name + " " + std::to_string(value)));
  }
  return points;
}

// Neighbours whose ratio of MFU leaves [least, most].
void check_steps(const std::vector<Point>& points, double least, double most) {
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double ratio = points[i].mfu / points[i - 1].mfu;
    INFO(points[i].label << ": MFU " << points[i - 1].mfu << " -> " << points[i].mfu);
    CHECK(ratio >= least);
    CHECK(ratio <= most);
  }
}

}  // namespace

TEST_CASE("No plan computes faster than the device's sustained rate") {
  for (const Job& job : jobs()) {
    const auto by_tokens =
        sweep(job, {1, 2, 4, 8, 16, 32}, [](Strategy& s, std::int64_t n) { s.micro_batch = n; });
    for (const Point& p : by_tokens) {
      INFO(p.label);
      CHECK(p.mfu > 0.005);
      CHECK(p.mfu < 0.75);  // A100 runs of benchmarks/accuracy reach 0.67
    }
  }
}

TEST_CASE("Larger microbatches hold more and do not lose by themselves") {
  for (const Job& job : jobs()) {
    const auto points =
        sweep(job, {1, 2, 4, 8, 16}, [](Strategy& s, std::int64_t n) { s.micro_batch = n; });
    check_steps(points, 0.8, 2.1);
    for (std::size_t i = 1; i < points.size(); ++i) {
      INFO(points[i].label);
      CHECK(points[i].memory.activations > points[i - 1].memory.activations);
      CHECK(points[i].memory.peak > points[i - 1].memory.peak);
      // Twice, and a little more where another stage becomes the fullest.
      CHECK(points[i].memory.activations.si() <= 2.2 * points[i - 1].memory.activations.si());
    }
  }
}

TEST_CASE("Tensor parallelism inside a node costs time and saves memory") {
  for (const Job& job : jobs()) {
    const auto points = sweep(job, {1, 2, 4, 8}, [](Strategy& s, std::int64_t n) {
      s.dp = s.dp * s.tp / n;
      s.tp = n;
      s.sequence_parallel = n > 1;
      s.ep = std::min(s.ep, s.dp * n);
    });
    check_steps(points, 0.45, 1.1);
    for (std::size_t i = 1; i < points.size(); ++i) {
      INFO(points[i].label);
      CHECK(points[i].memory.activations < points[i - 1].memory.activations);
    }
  }
}

TEST_CASE("Longer sequences of as many tokens change the rate smoothly") {
  for (const Job& job : jobs()) {
    const auto points = sweep(job, {1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072},
                              [](Strategy& s, std::int64_t n) {
                                s.global_batch =
                                    std::max<std::int64_t>(s.global_batch * 4096 / n, 64 * s.dp);
                                s.seq_len = n;
                              });
    // Tokens of a microbatch grow in step: where launches or weights dominate, so does the rate.
    check_steps(points, 0.75, 3);
    for (std::size_t i = 1; i < points.size(); ++i) {
      INFO(points[i].label);
      CHECK(points[i].memory.activations > points[i - 1].memory.activations);
    }
  }
}

TEST_CASE("More devices on as much work each lose a little") {
  for (const Job& job : jobs()) {
    const auto points = sweep(job, {1, 2, 4, 8, 16, 32, 64, 128}, [](Strategy& s, std::int64_t n) {
      s.dp *= n;
      s.global_batch *= n;
    });
    // A gather of every layer's weights over a ring of all nodes waits for all its hops.
    check_steps(points, job.strategy.zero == 3 ? 0.5 : 0.8, 1.005);
  }
}

TEST_CASE("Every ZeRO stage holds less of the states") {
  for (Job job : jobs()) {
    job.strategy.pp = 1;
    const auto points =
        sweep(job, {0, 1, 2, 3}, [](Strategy& s, std::int64_t n) { s.zero = static_cast<int>(n); });
    // From ZeRO-2 on every microbatch scatters its gradients.
    check_steps(points, 0.1, 3.5);
    const auto states = [](const MemoryBreakdown& m) {
      return m.weights + m.gradients + m.optimizer;
    };
    for (std::size_t i = 1; i < points.size(); ++i) {
      INFO(points[i].label);
      CHECK(states(points[i].memory) <= states(points[i - 1].memory));
    }
  }
}

TEST_CASE("Recomputation saves memory for at most the forward pass") {
  for (const Job& job : jobs()) {
    const auto points = sweep(job, {0, 1, 2}, [](Strategy& s, std::int64_t n) {
      s.recompute = static_cast<Recompute>(n);
    });
    check_steps(points, 0.65, 1.0);
    for (std::size_t i = 1; i < points.size(); ++i) {
      INFO(points[i].label);
      CHECK(points[i].memory.activations < points[i - 1].memory.activations);
    }
  }
}

TEST_CASE("Context parallelism of long sequences loses less than half per doubling") {
  for (const CpKind kind : {CpKind::kRing, CpKind::kAllGather, CpKind::kUlysses}) {
    for (Job job : jobs()) {
      job.strategy.seq_len = 32768;
      job.strategy.cp_kind = kind;
      job.strategy.global_batch /= 8;
      const auto points = sweep(job, {1, 2, 4}, [](Strategy& s, std::int64_t n) {
        s.cp = n;
        s.dp /= n;
      });
      check_steps(points, 0.45, 1.15);
      for (std::size_t i = 1; i < points.size(); ++i) {
        INFO(points[i].label);
        CHECK(points[i].memory.activations < points[i - 1].memory.activations);
      }
    }
  }
}

TEST_CASE("Expert parallelism inside a node moves tokens instead of weights") {
  for (const Job& job : jobs()) {
    if (!job.model.moe) continue;
    const auto points = sweep(job, {1, 2, 4, 8}, [](Strategy& s, std::int64_t n) { s.ep = n; });
    check_steps(points, 0.6, 2);
    for (std::size_t i = 1; i < points.size(); ++i) {
      INFO(points[i].label);
      CHECK(points[i].memory.weights <= points[i - 1].memory.weights);
    }
  }
}
