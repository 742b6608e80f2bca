# One ctest entry per test case, found when ctest runs: a new case needs no new configure.
include(Catch)
# Seconds that a test may take, as timeout_<seconds>: sanitizers slow programs down tenfold.
foreach(seconds 60 180 300 600 900)
  set(timeout_${seconds} ${seconds})
  if(MESHPLAN_SANITIZE)
    math(EXPR timeout_${seconds} "${seconds} * 10")
  endif()
endforeach()
# LONG: some cases have the tag [long]; their label is <module>-long, which -L <module> matches too.
function(catch_discover_meshplan_tests target module)
  cmake_parse_arguments(ARG "LONG" "" "" ${ARGN})
  if(ARG_LONG)
    catch_discover_tests(${target}
      TEST_SPEC "[long]"
      TEST_PREFIX "${module}: "
      PROPERTIES LABELS ${module}-long TIMEOUT ${timeout_300}
      DISCOVERY_MODE PRE_TEST)
  endif()
  catch_discover_tests(${target}
    TEST_SPEC "~[long]"
    TEST_PREFIX "${module}: "
    PROPERTIES LABELS ${module} TIMEOUT ${timeout_300}
    DISCOVERY_MODE PRE_TEST)
endfunction()
