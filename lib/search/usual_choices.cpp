#include "search/usual_choices.hpp"

#include <algorithm>

#include "schedule/traits.hpp"

namespace meshplan {
namespace {

// Whether `one` is usual, or nothing is.
template <class T, class Usual>
bool is_usual_of(const std::vector<T>& all, const T& one, const Usual& usual) {
  return usual(one) || std::none_of(all.begin(), all.end(), usual);
}

}  // namespace

bool is_usual(const std::vector<Split>& all, const Split& split, std::int64_t tp) {
  return is_usual_of(all, split, [&](const Split& each) {
    return each.etp == 1 && each.sequence_parallel == (tp > 1);
  });
}

bool is_usual(const std::vector<ScheduleChoice>& all, const ScheduleChoice& choice) {
  return is_usual_of(all, choice, [](const ScheduleChoice& each) {
    return traits_of(each.schedule).widely_available;
  });
}

bool is_usual(const std::vector<Sharding>& all, const Sharding& sharding) {
  return is_usual_of(all, sharding, [](const Sharding& each) {
    return (each.zero == 1 || each.zero == 3) && each.zero_group == 0 &&
           each.order == kDefaultOrder;
  });
}

}  // namespace meshplan
