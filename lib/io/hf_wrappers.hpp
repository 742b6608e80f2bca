#pragma once
// Files that describe a model of several parts, and kinds of models that cannot be planned for.
#include <string>
#include <string_view>

#include "io/hf_fields.hpp"
#include "spec/model.hpp"

namespace meshplan::hf {

// The mapping that holds the language model of a wrapper; empty where the file is none.
[[nodiscard]] std::string language_model_key(const HfFields& f);

// Reads the vision encoder of `f`, if it has one, into `m`.
void read_encoder(HfFields& f, ModelSpec& m);

// Why no plan can be made: audio, diffusion, encoder-decoder and encoder-only models by their name,
// and decoders whose parts are not described; empty for others.
[[nodiscard]] std::string refusal(HfFields& f, const std::string& model_type);

}  // namespace meshplan::hf
