# cmake --install: the program, its data, the manual page, completions and the licence. The program
# finds its data relative to itself, so a prefix may be moved.
if(NOT TARGET meshplan)
  return()
endif()

add_custom_target(meshplan_plugins)
foreach(plugin mpi cuda)
  if(TARGET meshplan_${plugin})
    add_dependencies(meshplan_plugins meshplan_${plugin})
  endif()
endforeach()

install(TARGETS meshplan RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY benchmarks/accuracy/frameworks DESTINATION ${CMAKE_INSTALL_DATADIR}/meshplan)
install(DIRECTORY models hardware-profiles DESTINATION ${CMAKE_INSTALL_DATADIR}/meshplan
        FILES_MATCHING PATTERN "*.yaml")
install(FILES ${meshplan_schema_files} DESTINATION ${CMAKE_INSTALL_DATADIR}/meshplan/schema)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${PROJECT_BINARY_DIR}/page/page_licences.txt DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)

# Manual page and completions come from the program's own --help, so they cannot fall behind it.
if(NOT Python3_Interpreter_FOUND OR CMAKE_CROSSCOMPILING)
  return()
endif()
set(docs ${PROJECT_BINARY_DIR}/docs)
add_custom_command(
  OUTPUT ${docs}/meshplan.1 ${docs}/meshplan.bash ${docs}/_meshplan ${docs}/meshplan.fish
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/generate_docs $<TARGET_FILE:meshplan> ${docs}
  DEPENDS meshplan scripts/generate_docs
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
  COMMENT "Manual page and shell completions"
  VERBATIM)
add_custom_target(meshplan_docs ALL DEPENDS ${docs}/meshplan.1)
install(FILES ${docs}/meshplan.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${docs}/meshplan.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME meshplan)
install(FILES ${docs}/_meshplan DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${docs}/meshplan.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
