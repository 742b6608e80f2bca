#pragma once
// What NVIDIA's performance presets set and its tables do not print, read from their source
// (bridge_presets.py makes bridge_presets.jsonl).
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "run.hpp"

namespace meshplan::accuracy {

struct BridgePreset {
  int release = 0;        // of the container, release_number()
  std::string model;      // letters and digits of its name, lower case: "qwen330b"
  std::string gpu;        // "GB300"
  std::string precision;  // "bf16", "fp8", "mxfp8"; empty: any
  std::int64_t tp = 1, pp = 1, vp = 1, cp = 1, ep = 1, micro_batch = 1, global_batch = 1;
  std::vector<std::string> recompute_modules;  // empty: nothing is recomputed
  std::int64_t recompute_num_layers = 0;       // in full, of each model chunk
  std::int64_t offloaded_layers = 0;           // whose activations are copied to the host
  bool expandable_segments = false;            // of PyTorch's allocator
  bool a2a_overlap = false;                    // experts' dispatch runs beside computation
  bool flex_dispatcher = false;                // DeepEP or HybridEP
  bool fp8_attention = false;
  bool fused_experts = false;  // cutedsl_fused_grouped_mlp
  std::string cuda_graph;      // "", "transformer_engine", "full_iteration"
  std::vector<std::string> cuda_graph_scope;
  std::vector<std::int64_t> chunk_layers;  // of its pipeline layout; empty: it has none

  bool operator==(const BridgePreset&) const = default;
};

// "26.02.01" -> 260201, "25.11" -> 251100; 0 where the text is no release.
[[nodiscard]] int release_number(const std::string& text);

// A line of presets or of recipes; what it leaves out is one, false or empty.
[[nodiscard]] BridgePreset read_preset(const nlohmann::json& line);

// Whether a preset is of a row's model, GPU and precision, with the row's layout.
[[nodiscard]] bool is_for(const BridgePreset& p, const Run& run);

// The presets that ship, in the order of their file.
[[nodiscard]] const std::vector<BridgePreset>& bridge_presets();

// The preset that a table's row was made with: of its model, GPU and precision, and with the layout
// that it prints; of the row's batch where there are two; of the row's container, else of the
// newest before it that has one, else of the oldest after it. Null where there is none.
[[nodiscard]] const BridgePreset* bridge_preset(const std::vector<BridgePreset>& all,
                                                const Run& run);

}  // namespace meshplan::accuracy
