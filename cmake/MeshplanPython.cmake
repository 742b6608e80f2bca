# The Python of the tests and of the manual page. Several may be installed: the first one that has
# the modules of the schema tests is taken (python3-yaml, python3-jsonschema), else any at all.
# A version manager puts a script in its place that looks for the interpreter at every start, for a
# third of a second: what that one starts is called by its own path.
if(NOT Python3_EXECUTABLE)
  foreach(candidate python3 /usr/bin/python3)
    find_program(meshplan_python_candidate ${candidate} NO_CACHE)
    if(meshplan_python_candidate)
      execute_process(COMMAND ${meshplan_python_candidate} -c
                              "import sys, yaml, jsonschema; print(sys.executable, end='')"
                      RESULT_VARIABLE missing OUTPUT_VARIABLE interpreter ERROR_QUIET)
      if(missing EQUAL 0 AND EXISTS "${interpreter}")
        set(Python3_EXECUTABLE ${interpreter} CACHE FILEPATH "Python of the tests")
        break()
      endif()
    endif()
    unset(meshplan_python_candidate)
  endforeach()
endif()
find_package(Python3 QUIET COMPONENTS Interpreter)
