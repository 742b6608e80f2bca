# The Python of the tests and of the manual page. Several may be installed: the first one that has
# the modules of the schema tests is taken (python3-yaml, python3-jsonschema), else any at all.
if(NOT Python3_EXECUTABLE)
  foreach(candidate python3 /usr/bin/python3)
    find_program(meshplan_python_candidate ${candidate} NO_CACHE)
    if(meshplan_python_candidate)
      execute_process(COMMAND ${meshplan_python_candidate} -c "import yaml, jsonschema"
                      RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
      if(missing EQUAL 0)
        set(Python3_EXECUTABLE ${meshplan_python_candidate} CACHE FILEPATH "Python of the tests")
        break()
      endif()
    endif()
    unset(meshplan_python_candidate)
  endforeach()
endif()
find_package(Python3 QUIET COMPONENTS Interpreter)
