#include "study/default_space.hpp"

#include <optional>
#include <vector>

#include "frameworks/target.hpp"
#include "space/space.hpp"
#include "space/target.hpp"

namespace meshplan {
namespace {

// Whether the request's space holds anything on one of the sizes; the first error where all are
// errors.
Result<bool> has_meshes(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request,
                        std::span<const std::int64_t> sizes) {
  const std::vector<std::int64_t> whole{num_gpus(c)};
  std::optional<Diagnostics> why;
  bool none = false;
  for (const std::int64_t gpus : sizes.empty() ? std::span<const std::int64_t>(whole) : sizes) {
    const Result<SearchSpace> space = SearchSpace::make(m, with_gpus(c, gpus), request);
    if (space && !space->meshes().empty()) return true;
    if (space) none = true;
    if (!space && !why) why = space.errors();
  }
  if (none || !why) return false;
  return *why;
}

}  // namespace

DefaultSpace default_space(const ModelSpec& m, const ClusterSpec& c, const SearchRequest& request,
                           std::span<const std::int64_t> sizes) {
  const std::optional<Target> target = target_of(request.base, m);
  if (!target) return {};
  SearchRequest own = request;
  own.space = space_of(*target);
  const Result<bool> accepts = has_meshes(m, c, own, sizes);
  if (accepts && *accepts) return {own.space, {}};
  const std::string why =
      accepts ? "it cannot be told what is fixed" : accepts.errors().front().message;
  return {Space::kFull, std::string(name_of(*target)) + "'s exporter accepts no plan of this (" +
                            why + "): everything that is legal is searched"};
}

}  // namespace meshplan
