# cmake -DSOURCE=... -DBUILD=... -DNODE=... -DNPM=... -P build_page.cmake
# Fetches the pinned packages into the build folder once per lock file, and writes BUILD/page.cpp.
set(lock ${SOURCE}/package-lock.json)
set(log ${BUILD}/npm.log)
set(stamp ${BUILD}/.installed)

# The build goes on without the page; the next one tries again, because this output is older than
# what it is made from.
function(without_page why)
  message(WARNING "The HTML report is left out of this build: ${why} (see ${log}). "
                  "-DMESHPLAN_PAGE=OFF stops trying.")
  configure_file(${CMAKE_CURRENT_LIST_DIR}/no_page.cpp.in ${BUILD}/page.cpp COPYONLY)
  execute_process(COMMAND touch -d 2000-01-01 ${BUILD}/page.cpp)
endfunction()

file(COPY ${SOURCE}/ DESTINATION ${BUILD} PATTERN node_modules EXCLUDE)
file(SHA256 ${lock} wanted)
set(installed "")
if(EXISTS ${stamp})
  file(READ ${stamp} installed)
endif()
if(NOT installed STREQUAL wanted)
  execute_process(COMMAND ${NPM} ci --prefer-offline --fetch-retries=1 --fetch-timeout=20000
                  WORKING_DIRECTORY ${BUILD} RESULT_VARIABLE failed OUTPUT_FILE ${log} ERROR_FILE ${log})
  if(failed)
    without_page("npm could not fetch its packages")
    return()
  endif()
  file(WRITE ${stamp} ${wanted})
endif()
execute_process(COMMAND ${NODE} build.mjs page.cpp page_licences.txt
                WORKING_DIRECTORY ${BUILD} RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "The page of the HTML report does not build.")
endif()
