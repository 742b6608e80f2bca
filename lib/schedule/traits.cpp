#include "schedule/traits.hpp"

namespace meshplan {

extern const ScheduleTraits kGpipeTraits, kOneFOneBTraits, kInterleavedTraits, kZbH1Traits,
    kZbVTraits, kDualPipeTraits;

const std::array<const ScheduleTraits*, kNumSchedules> kScheduleTraits{
    &kGpipeTraits, &kOneFOneBTraits, &kInterleavedTraits,
    &kZbH1Traits,  &kZbVTraits,      &kDualPipeTraits};

}  // namespace meshplan
