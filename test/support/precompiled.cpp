// The source that the precompiled header of all test programs is built for: CMake makes one only
// for a target that has a source to use it in.
#include "support/catch.hpp"
