#pragma once
// Reads the keys of one kind of layer (spec/layer_keys.hpp).
#include "io/yaml_reader.hpp"
#include "spec/layer_keys.hpp"

namespace meshplan {

// `optional`: every key has a value already.
template <class Kind>
void read_layer_keys(MapReader& r, Kind& kind, bool optional) {
  for_each_layer_key(kind, [&](const LayerKey& key, auto& value) {
    r.read(key.name, value, key.has_default || optional ? Need::kOptional : Need::kRequired);
  });
}

}  // namespace meshplan
