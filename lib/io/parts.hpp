#pragma once
// Models and clusters that are values inside of other files.
#include "io/load.hpp"
#include "io/yaml_reader.hpp"

namespace meshplan {

// The keys of a model file, or of a cluster file, from a document that parsed; all its problems.
Result<ModelSpec> read_model(Document& document);
Result<ClusterSpec> read_cluster(Document& document, const DataFolders& data);

}  // namespace meshplan
