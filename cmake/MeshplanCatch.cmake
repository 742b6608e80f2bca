# One ctest entry per test case, found when ctest runs: a new case needs no new configure.
include(Catch)
function(catch_discover_meshplan_tests target module)
  catch_discover_tests(${target}
    TEST_PREFIX "${module}: "
    PROPERTIES LABELS ${module} TIMEOUT 300
    DISCOVERY_MODE PRE_TEST)
endfunction()
