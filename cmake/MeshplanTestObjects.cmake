# The sanitizers' build can link its libraries with the object files that another build of the same
# sources made of the tests: what is looked for is in the libraries, and compiling the tests once more
# takes as long as compiling what they test. Code of the tests is then not instrumented itself: what
# only that shows, such as a test that reads what a library freed, is left to the nightly run.
set(MESHPLAN_TEST_OBJECTS "" CACHE PATH
    "Build folder whose object files of the fast tests are linked, instead of compiling them")
set(MESHPLAN_FAST_MODULES base schedule spec frameworks io layout comm model cost space launch probe
                          reliability)

# meshplan_write_object_list(<program> [<object library>]): the files it is linked from, one a line. CMake
# counts a precompiled header among them.
function(meshplan_write_object_list program)
  set(objects $<TARGET_OBJECTS:${program}>)
  foreach(library IN LISTS ARGN)
    list(APPEND objects $<TARGET_OBJECTS:${library}>)
  endforeach()
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/test-objects/${program}
       CONTENT "$<JOIN:$<FILTER:${objects},EXCLUDE,gch$>,\n>\n")
endfunction()

# The static libraries of this project that a target is linked with, directly or not.
function(meshplan_static_libraries target result)
  set(found)
  set(pending ${target})
  while(pending)
    list(POP_FRONT pending current)
    get_target_property(type ${current} TYPE)
    get_target_property(imported ${current} IMPORTED)
    if(type STREQUAL "STATIC_LIBRARY" AND NOT imported)
      list(APPEND found ${current})
    endif()
    set(linked)
    if(NOT type STREQUAL "INTERFACE_LIBRARY")
      get_target_property(linked ${current} LINK_LIBRARIES)
    endif()
    list(FILTER linked INCLUDE REGEX "^meshplan_")
    list(REMOVE_ITEM linked ${found})
    list(APPEND pending ${linked})
  endwhile()
  list(REMOVE_DUPLICATES found)
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# meshplan_link_objects(<program>): links it from the files that the other build's list names, after
# all that its libraries have: of an inline function in several files the linker takes the first,
# which has to be the instrumented one.
function(meshplan_link_objects program)
  meshplan_static_libraries(${program} libraries)
  foreach(library IN LISTS libraries)
    target_sources(${program} PRIVATE $<TARGET_OBJECTS:${library}>)
  endforeach()
  set(list ${MESHPLAN_TEST_OBJECTS}/test-objects/${program})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} objects)
  target_sources(${program} PRIVATE ${objects})
  set_target_properties(${program} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()
