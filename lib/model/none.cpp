// Nothing in the place of a mixer or of a feed-forward.
#include "model/kinds.hpp"

namespace meshplan {

void add_parameters(const NoneSpec&, const ModelSpec&, LayerParameters&) {}
std::int64_t copied_parameters(const NoneSpec&, const ModelSpec&, std::int64_t) { return 0; }
double token_flops(const NoneSpec&, std::int64_t) { return 0; }
void append_operations(const NoneSpec&, const BlockContext&, BlockOps&) {}
KeptBytes saved_bytes(const NoneSpec&, const BlockContext&) { return {}; }
double temporary_bytes(const NoneSpec&, const BlockContext&) { return 0; }
double widest_features(const NoneSpec&, const BlockContext&) { return 0; }

}  // namespace meshplan
