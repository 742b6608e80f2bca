#pragma once
// Layers that differ: `layers`, a list of {count, mixer, feed_forward} or of {repeat, layers}, or a
// hybrid pattern such as "M-M*-", and the sections `mixers` and `feed_forwards` that they name.
#include "io/yaml_reader.hpp"
#include "spec/model.hpp"

namespace meshplan {

// What a section leaves out is what `m` says of all layers.
void read_layers(MapReader& r, ModelSpec& m);

}  // namespace meshplan
