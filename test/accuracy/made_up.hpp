#pragma once
// A source and a run of it that state everything, for tests to take away from.
#include <string>

#include "published.hpp"

namespace meshplan::accuracy {

inline Source source_called(const std::string& title) {
  Source source;
  source.name = "made-up";
  source.title = title;
  source.gpu = "NVIDIA A100 80GB";
  source.gpus_per_node = {{"", 8}};
  return source;
}

inline Run complete_run() {
  Run run;
  run.id = "one";
  run.model.name = "tiny";
  run.model.num_layers = 8;
  run.model.hidden_size = 1024;
  run.model.num_attention_heads = 8;
  run.model.ffn_hidden_size = 4096;
  run.model.vocab_size = 32000;
  run.model.seq_length = 2048;
  run.gpus = 16;
  run.tp = 2;
  run.pp = 2;
  run.vp = 1;
  run.dp = 4;
  run.micro_batch = 1;
  run.global_batch = 64;
  run.sequence_parallel = true;
  run.zero_stage = 1;
  run.precision = "bf16";
  run.recompute = "none";
  run.schedule = "1f1b";
  run.attention_impl = "FlashAttention-2";
  return run;
}

}  // namespace meshplan::accuracy
