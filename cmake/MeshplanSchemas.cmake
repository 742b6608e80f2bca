# The JSON Schemas that are installed, each complete in one file: lib/report/schema with the common
# definitions put in. They come with the program, since that is what they describe.
set(meshplan_schema_sources ${PROJECT_SOURCE_DIR}/lib/report/schema)
set(MESHPLAN_SCHEMAS ${PROJECT_BINARY_DIR}/schema)
file(GLOB schemas CONFIGURE_DEPENDS ${meshplan_schema_sources}/*.schema.json)
set(common_schema ${meshplan_schema_sources}/common.schema.json)
list(REMOVE_ITEM schemas ${common_schema})
set(meshplan_schema_files "")
foreach(schema IN LISTS schemas)
  get_filename_component(name ${schema} NAME)
  add_custom_command(
    OUTPUT ${MESHPLAN_SCHEMAS}/${name}
    COMMAND ${CMAKE_COMMAND} -DSCHEMA=${schema} -DCOMMON=${common_schema} -DOUT=${MESHPLAN_SCHEMAS}/${name}
            -P ${PROJECT_SOURCE_DIR}/cmake/bundle_schema.cmake
    DEPENDS ${schema} ${common_schema} ${PROJECT_SOURCE_DIR}/cmake/bundle_schema.cmake
    COMMENT "JSON Schema ${name}"
    VERBATIM)
  list(APPEND meshplan_schema_files ${MESHPLAN_SCHEMAS}/${name})
endforeach()
add_custom_target(meshplan_schemas ALL DEPENDS ${meshplan_schema_files})
if(TARGET meshplan)
  add_dependencies(meshplan meshplan_schemas)
endif()
