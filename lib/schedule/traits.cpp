#include "schedule/traits.hpp"

namespace meshplan {

extern const ScheduleTraits kGpipeTraits, kOneFOneBTraits, kInterleavedTraits, kZbH1Traits,
    kZbVTraits, kDualPipeTraits, kVHalfTraits, kVMinTraits;

const std::array<const ScheduleTraits*, kNumSchedules> kScheduleTraits{
    &kGpipeTraits, &kOneFOneBTraits, &kInterleavedTraits, &kZbH1Traits,
    &kZbVTraits,   &kDualPipeTraits, &kVHalfTraits,       &kVMinTraits};

}  // namespace meshplan
