# Writes a C++ source that holds JSON Schemas as text, by name.
#
# usage: cmake -DSCHEMAS=a.schema.json;b.schema.json -DOUT=schemas.cpp -P schemas_source.cmake
set(cases "")
foreach(file IN LISTS SCHEMAS)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND cases "  if (name == \"${name}\") return R\"schema(${text})schema\";\n")
endforeach()
file(WRITE ${OUT} "#include \"schemas.hpp\"

namespace meshplan {

const char* schema_text(const std::string& name) {
${cases}  return \"{}\";
}

}  // namespace meshplan
")
