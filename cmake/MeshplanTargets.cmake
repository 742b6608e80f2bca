# Targets of this project are all made by the functions below, so that flags and
# the one-way arrows between the libraries are stated once.
find_package(Threads REQUIRED)

add_library(meshplan_flags INTERFACE)
target_compile_options(meshplan_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Werror=switch
  $<$<BOOL:${MESHPLAN_WERROR}>:-Werror>)
# At -O3, GCC 12 raises false alarms inside its own strings and vectors (GCC bugs 105329, 105651; fixed
# in 13). The sanitizers look for the real thing.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(meshplan_flags INTERFACE -Wno-restrict -Wno-stringop-overflow
    -Wno-array-bounds)
endif()
# GCC collects garbage while it reads headers, for a tenth of the time of compiling; without it up to a
# third more memory is taken: 0.9 GB for the largest groups of sources.
set(MESHPLAN_ROOMY)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(MESHPLAN_ROOMY --param=ggc-min-heapsize=524288)
  target_compile_options(meshplan_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${MESHPLAN_ROOMY}>)
endif()
# Position-independent functions may be replaced when a program is loaded, unless this says that none
# is: only then does GCC inline those of one source into each other. A twentieth of a search's time.
target_compile_options(meshplan_flags INTERFACE
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-semantic-interposition>)
# Input comes from people, files and the network: what slips past the readers must not become an
# attacker's. Checked on the built program by test/reliability/hardening_test.py.
target_compile_options(meshplan_flags INTERFACE -fstack-protector-strong)
if(MESHPLAN_SANITIZE)  # they bring their own checks of what FORTIFY checks
  target_compile_definitions(meshplan_flags INTERFACE _GLIBCXX_ASSERTIONS)
else()
  target_compile_options(meshplan_flags INTERFACE
    $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
endif()
target_link_options(meshplan_flags INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX)  # programs are linked so that they can be loaded anywhere
if(MESHPLAN_SANITIZE)
  target_compile_options(meshplan_flags INTERFACE
    -fsanitize=${MESHPLAN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  if(MESHPLAN_SANITIZE MATCHES "address")  # which finds what these look for, in a fifth less time to compile
    target_compile_options(meshplan_flags INTERFACE
      -fno-sanitize=null,alignment,vptr,object-size,nonnull-attribute,returns-nonnull-attribute)
  endif()
  target_link_options(meshplan_flags INTERFACE -fsanitize=${MESHPLAN_SANITIZE})
endif()

# Code that reads, writes and asks compiles in half of the time without what -O3 does for loops.
function(meshplan_cold target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Og>)
endfunction()

# Most of the time of a whole build goes into reading the same headers again for every source. Files
# that are alike line by line (one per framework, say) name the parts of their tables alike and stay
# by themselves: APART.
function(meshplan_unity target)
  cmake_parse_arguments(ARG "" "SIZE" "APART" ${ARGN})
  if(NOT ARG_SIZE)
    set(ARG_SIZE 20)
  endif()
  if(NOT MESHPLAN_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${ARG_SIZE})
  # Meant for headers: a source of a group is not the file that is compiled.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  foreach(pattern IN LISTS ARG_APART)
    file(GLOB apart CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${pattern})
    set_source_files_properties(${apart} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
endfunction()

# meshplan_library(<name> [COLD] [APART <pattern>...]
#                  [DEPENDS <library>...] [PRIVATE <target>...]
# Static library lib/<name> from every source in that folder; a header is included
# as "<name>/<file>.hpp".
function(meshplan_library name)
  cmake_parse_arguments(ARG "COLD" "" "APART;DEPENDS;PRIVATE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  if(NOT sources)  # nothing but headers yet
    add_library(meshplan_${name} INTERFACE)
    target_include_directories(meshplan_${name} INTERFACE ${PROJECT_SOURCE_DIR}/lib)
    return()
  endif()
  add_library(meshplan_${name} STATIC ${sources})
  target_include_directories(meshplan_${name} PUBLIC ${PROJECT_SOURCE_DIR}/lib)
  target_link_libraries(meshplan_${name} PRIVATE meshplan_flags ${ARG_PRIVATE})
  list(TRANSFORM ARG_APART PREPEND "${name}/")
  meshplan_unity(meshplan_${name} APART ${ARG_APART})
  if(ARG_COLD)
    meshplan_cold(meshplan_${name})
  endif()
  foreach(dependency IN LISTS ARG_DEPENDS)
    target_link_libraries(meshplan_${name} PUBLIC meshplan_${dependency})
  endforeach()
endfunction()

# A precompiled header serves only targets of one code model, and CMake gives object libraries
# -fPIC but programs -fPIE.
function(meshplan_same_code_model target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
endfunction()

# meshplan_test(<module> [LONG] [APART <file>...] [LIBRARIES <target>...])
# Test program test_<module> from test/<module>/*_test.cpp; ctest runs it as <module>.
function(meshplan_test module)
  cmake_parse_arguments(ARG "LONG" "" "APART;LIBRARIES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${module}/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  if(MESHPLAN_TEST_OBJECTS AND module IN_LIST MESHPLAN_FAST_MODULES)
    add_executable(test_${module})
    target_link_libraries(test_${module} PRIVATE meshplan_flags ${ARG_LIBRARIES})
    meshplan_link_objects(test_${module})
  else()
    add_executable(test_${module} ${sources})
    target_link_libraries(test_${module} PRIVATE meshplan_flags meshplan_test_main ${ARG_LIBRARIES})
    meshplan_same_code_model(test_${module})
    meshplan_cold(test_${module})
    list(TRANSFORM ARG_APART PREPEND "${module}/")
    meshplan_unity(test_${module} SIZE 8 APART ${ARG_APART})
    target_precompile_headers(test_${module} REUSE_FROM meshplan_test_main)
    if(module IN_LIST MESHPLAN_FAST_MODULES)
      meshplan_write_object_list(test_${module} meshplan_test_main)
    endif()
  endif()
  set(long)
  if(ARG_LONG)
    set(long LONG)
  endif()
  catch_discover_meshplan_tests(test_${module} ${module} ${long})
endfunction()
