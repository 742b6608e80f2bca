#pragma once
// Catch2 2.13 (Debian 12, Ubuntu 22.04) and 3.x (Ubuntu 24.04) name their headers differently.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
