# Included where the library is made. The page of the HTML report: lib/report/page, bundled by esbuild and compiled into the program.
# Without Node.js, or where npm cannot fetch the packages, the program is built all the same and
# `meshplan report --html` says what is missing.
option(MESHPLAN_PAGE "Build the page of the HTML report (needs nodejs and npm)" ON)

set(page_build ${PROJECT_BINARY_DIR}/page)
set(page_cpp ${page_build}/page.cpp)
set(found FALSE)
if(MESHPLAN_PAGE)
  find_program(MESHPLAN_NODE NAMES node nodejs)
  find_program(MESHPLAN_NPM npm)
  if(MESHPLAN_NODE AND MESHPLAN_NPM)
    execute_process(COMMAND ${MESHPLAN_NODE} --version OUTPUT_VARIABLE node_version
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    string(REGEX REPLACE "^v" "" node_version "${node_version}")
    if(node_version VERSION_GREATER_EQUAL 18)
      set(found TRUE)
    endif()
  endif()
endif()

set(MESHPLAN_PAGE_FOUND ${found} CACHE INTERNAL "Whether the report's page can be built")

if(MESHPLAN_PAGE_FOUND)
  set(page_source ${PROJECT_SOURCE_DIR}/lib/report/page)
  file(GLOB page_files CONFIGURE_DEPENDS ${page_source}/*.json ${page_source}/*.mjs ${page_source}/*.css
       ${page_source}/*.html ${page_source}/.npmrc ${page_source}/src/*.js)
  add_custom_command(
    OUTPUT ${page_cpp}
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${page_source} -DBUILD=${page_build} -DNODE=${MESHPLAN_NODE}
            -DNPM=${MESHPLAN_NPM} -P ${PROJECT_SOURCE_DIR}/cmake/build_page.cmake
    DEPENDS ${page_files} ${PROJECT_SOURCE_DIR}/cmake/build_page.cmake
            ${PROJECT_SOURCE_DIR}/cmake/no_page.cpp.in
    COMMENT "Page of the HTML report"
    VERBATIM)
else()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/no_page.cpp.in ${page_cpp} COPYONLY)
endif()
