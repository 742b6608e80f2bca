#pragma once
// A small model's arguments with others behind them, as Megatron-LM's importer reads them on 8
// GPUs.
#include <string>
#include <utility>

#include "launch/megatron_import.hpp"
#include "support/catch.hpp"

namespace meshplan::test {

inline MegatronRun small_run(const std::string& more) {
  RunContext context;
  context.gpus = 8;
  Result<MegatronRun> run = read_megatron_run(
      "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --bf16 " + more, "a.sh", context);
  INFO((run.ok() ? "" : to_text(run.errors())));
  REQUIRE(run.ok());
  return std::move(*run);
}

}  // namespace meshplan::test
