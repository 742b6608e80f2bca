#include "io/training_log.hpp"

#include "support/catch.hpp"

namespace meshplan {
namespace {

TrainingLog read(std::string_view text) {
  const Result<TrainingLog> log = parse_training_log(text, "x.log");
  if (!log.ok()) FAIL(to_text(log.errors()));
  return *log;
}

// Lines as the codes print them (Megatron-LM training.py and utils.py, DeepSpeed utils/timer.py and
// runtime/pipe/engine.py, torchtitan components/metrics.py, NeMo's progress printer).
constexpr std::string_view kMegatron =
    "using world size: 16, data-parallel size: 2, context-parallel size: 1, hierarchical "
    "context-parallel sizes: None, tensor-model-parallel size: 4, pipeline-model-parallel size: 2\n"
    " [2025-06-01 12:00:00] iteration        1/     100 | consumed samples:           64 | elapsed "
    "time per iteration (ms): 21034.5 | throughput per GPU (TFLOP/s/GPU): 21.3 | learning rate: "
    "1.500000E-05 | global batch size:    64 | lm loss: 1.1E+01 | loss scale: 1.0 | grad norm: "
    "3.1 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    "[Rank 0] (after 1 iterations) memory (MB) | allocated: 20000.5 | max allocated: 30000.25 | "
    "reserved: 33000.0 | max reserved: 33100.0\n"
    "[Rank 8] (after 1 iterations) memory (MB) | allocated: 20000.5 | max allocated: 28000.0 | "
    "reserved: 33000.0 | max reserved: 34000.0\n"
    " [2025-06-01 12:00:03] iteration        2/     100 | consumed samples:          128 | elapsed "
    "time per iteration (ms): 2010.0 | learning rate: 1.5E-05 | global batch size:    64 |\n"
    " [2025-06-01 12:00:05] iteration        3/     100 | consumed samples:          192 | elapsed "
    "time per iteration (ms): 2000.0/2005.0 | learning rate: 1.5E-05 | global batch size:    64 |\n"
    " [2025-06-01 12:00:07] iteration        4/     100 | consumed samples:          256 | elapsed "
    "time per iteration (ms): 2030.0 | learning rate: 1.5E-05 | global batch size:    64 |\n";

TEST_CASE("a log of Megatron-LM") {
  const TrainingLog log = read(kMegatron);
  CHECK(log.kind == LogKind::kMegatron);
  CHECK(log.reports.size() == 4);
  CHECK(log.global_batch == 64);
  CHECK(log.gpus == 16);
  CHECK(log.dp == 2);
  CHECK(log.cp == 1);
  CHECK(log.tp == 4);
  CHECK(log.pp == 2);
  CHECK(log.max_allocated == Bytes{30000 * kMiB + kMiB / 4});
  CHECK(log.max_reserved == Bytes{34000 * kMiB});
  const Result<StepTime> step = steady_step_time(log, 64, 2048, 16);
  REQUIRE(step.ok());
  CHECK(step->median.si() == Approx(2.010));  // the first one is warm-up
  CHECK(step->reports == 3);
  CHECK(step->spread == Approx(0.015 / 2.010));  // quartiles 2.005 and 2.020
}

// A step's median by the log, where the job did `batch` sequences of `tokens` on `gpus` devices.
double step_seconds(const TrainingLog& log, std::int64_t batch, std::int64_t tokens,
                    std::int64_t gpus) {
  const Result<StepTime> step = steady_step_time(log, batch, tokens, gpus);
  if (!step.ok()) FAIL(to_text(step.errors()));
  return step->median.si();
}

// A line of DeepSpeed's throughput timer.
std::string deepspeed_timer(int step, double rate) {
  const std::string n = std::to_string(step);
  return "[2025-06-01 12:00:00,000] [INFO] [timer.py:215:stop] epoch=0/micro_step=" + n +
         "/global_step=" + n +
         ", RunningAvgSamplesPerSec=12.5, CurrSamplesPerSec=" + std::to_string(rate) +
         ", MemAllocated=4.1GB, MaxMemAllocated=12.5GB\n";
}

TEST_CASE("a log of DeepSpeed's throughput timer: samples of the whole job") {
  const TrainingLog log = read(deepspeed_timer(10, 12.8) + deepspeed_timer(20, 16.0));
  CHECK(log.kind == LogKind::kDeepspeed);
  CHECK(log.max_allocated == Bytes{25 * kGiB / 2});
  CHECK(step_seconds(log, 64, 2048, 8) == Approx(4.0));
}

TEST_CASE("a log of DeepSpeed's pipeline engine states times") {
  const TrainingLog log = read("steps: 10 loss: 2.3000 iter time (s): 1.250 samples/sec: 51.200\n" +
                               deepspeed_timer(20, 1) +
                               "steps: 20 loss: 2.2000 iter time (s): 1.300 samples/sec: 49.231\n");
  CHECK(log.reports.size() == 2);
  CHECK(step_seconds(log, 64, 2048, 8) == Approx(1.3));
}

TEST_CASE("a log of DeepSpeed before 0.7.7 tells means since the beginning") {
  // 40 samples a second up to the tenth micro-step, then 80: the means are told back.
  const auto line = [](int step, double mean) {
    return "[2022-03-11 02:06:58,985] [INFO] [timer.py:189:stop] 0/" + std::to_string(step) +
           ", SamplesPerSec=" + std::to_string(mean) +
           ", MemAllocated=0.26GB, MaxMemAllocated=9GB\n";
  };
  const double at_10 = 8 / 0.2, at_20 = 18 / (0.2 + 10.0 / 80), at_30 = 28 / (0.2 + 20.0 / 80);
  const TrainingLog log =
      parse_training_log(line(10, at_10) + line(20, at_20) + line(30, at_30), "x").value();
  CHECK(log.kind == LogKind::kDeepspeed);
  CHECK(log.max_allocated == Bytes{9LL << 30});
  REQUIRE(log.reports.size() == 3);
  CHECK(log.reports[0].samples_per_s == Approx(40));
  CHECK(log.reports[1].samples_per_s == Approx(80));
  CHECK(log.reports[2].samples_per_s == Approx(80));
  // A second run in the same file begins anew.
  const TrainingLog two =
      parse_training_log(line(30, at_30) + line(10, at_10) + line(20, at_20), "x").value();
  REQUIRE(two.reports.size() == 2);
  CHECK(two.reports[1].samples_per_s == Approx(80));
}

TEST_CASE("a log of NeMo of 2023 is a progress bar with a clock") {
  const auto line = [](int step, const std::string& clock) {
    return "Epoch 0:   1%|1         | " + std::to_string(step) + "/77225 [" + clock +
           "<878:01:48, 41.36s/it, loss=3.1, v_num=, reduced_train_loss=3.090, global_step=" +
           std::to_string(step - 1) + ".0, consumed_samples=1.63e+6]\r";
  };
  const TrainingLog log =
      parse_training_log(
          line(1, "02:00") + line(2, "02:10") + line(8, "03:10") + line(14, "1:04:10"), "x")
          .value();
  CHECK(log.kind == LogKind::kNemo);
  REQUIRE(log.reports.size() == 3);
  CHECK(log.reports[0].time.si() == Approx(120));
  // The second line is too near to the first to be read from whole seconds.
  CHECK(log.reports[1].time.si() == Approx(10));
  CHECK(log.reports[2].time.si() == Approx(610));
  CHECK_FALSE(parse_training_log("Epoch 0: | 7/9 [a<b, global_step=6]\n", "x").ok());
}

TEST_CASE("a log of torchtitan, colours and thousands included") {
  const TrainingLog log = read(
      "[titan] 2025-06-01 12:00:00,000 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss: 12.2  "
      "\x1b[38;2;180;60;0mgrad_norm:  3.1  \x1b[38;2;54;234;195mmemory: 40.00GiB(50.10%)  "
      "\x1b[34mtps: 512  \x1b[36mtflops: 30.10  \x1b[35mmfu: 3.10%\x1b[39m\n"
      "[titan] 2025-06-01 12:00:09,000 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss: 10.2  "
      "\x1b[33mmemory: 43.50GiB(54.30%)  \x1b[34mtps: 8,192  \x1b[36mtflops: 402.10  "
      "\x1b[35mmfu: 40.70%\x1b[39m\n");
  CHECK(log.kind == LogKind::kTorchtitan);
  CHECK(log.max_reserved == Bytes{87 * kGiB / 2});
  // 16 sequences of 4096 tokens on 8 devices of 8192 tokens/s.
  CHECK(step_seconds(log, 16, 4096, 8) == Approx(1.0));
}

TEST_CASE("a log of NeMo 2: lines, memory where it was asked for") {
  const TrainingLog log = read(
      "Training epoch 0, iteration 0/249 | lr: 1.961e-06 | global_batch_size: 8 | global_step: 0 | "
      "peak_memory_usage: 32212254720.0 | memory_allocated: 1.2e+10 | reduced_train_loss: 1.315 | "
      "train_step_timing in s: 7.126\n"
      "Training epoch 0, iteration 1/249 | lr: 3.922e-06 | global_batch_size: 8 | global_step: 1 | "
      "peak_memory_usage: 42949672960.0 | memory_allocated: 1.2e+10 | reduced_train_loss: 1.653 | "
      "train_step_timing in s: 2.505 | consumed_samples: 16\n");
  CHECK(log.kind == LogKind::kNemo);
  CHECK(log.global_batch == 8);
  CHECK(log.max_reserved == Bytes{40 * kGiB});
  CHECK(log.max_allocated == Bytes{0});  // the log has what is allocated now, not at most
  CHECK(step_seconds(log, 8, 2048, 8) == Approx(2.505));
}

TEST_CASE("a log of NeMo 1: a progress bar that rewrites itself") {
  const TrainingLog log = read(
      "\rEpoch 0: :   1%|1| 1/100 [00:30<50:00, reduced_train_loss=10.9, global_step=0.000, "
      "consumed_samples=256.0, train_step_timing in s=30.20]"
      "\rEpoch 0: :   2%|2| 2/100 [00:33<05:00, reduced_train_loss=10.8, global_step=1.000, "
      "consumed_samples=512.0, peak_memory_usage=6.13e+10, train_step_timing in s=3.130]\n");
  CHECK(log.reports.size() == 2);
  CHECK(log.max_reserved.si() == Approx(6.13e10));
  CHECK(step_seconds(log, 256, 4096, 64) == Approx(3.13));
}

TEST_CASE("logs that hold no step time, or not one, are refused with the reason") {
  const auto message = [](std::string_view text) {
    const Result<TrainingLog> log = parse_training_log(text, "x.log");
    REQUIRE_FALSE(log.ok());
    return to_text(log.errors());
  };
  CHECK(message("epoch 1 done\n").find("no step of a training run") != std::string::npos);
  CHECK(message("elapsed time per iteration (ms): nan | global batch size: 4 |\n")
            .find("no step of a training run") != std::string::npos);
  CHECK(message("elapsed time per iteration (ms): 10 | global batch size:  64 |\n"
                "elapsed time per iteration (ms): 20 | global batch size: 128 |\n")
            .find("the global batch changes during the run, from 64 to 128") != std::string::npos);
  const TrainingLog single = read("elapsed time per iteration (ms): 10.0 |\n");
  CHECK_FALSE(steady_step_time(single, 1, 1, 1).ok());
}

}  // namespace
}  // namespace meshplan
