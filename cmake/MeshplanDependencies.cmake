# Required packages (Debian names in scripts/install_packages).
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(pugixml REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(spdlog REQUIRED)
find_package(ZLIB REQUIRED)
find_package(benchmark QUIET)
if(MESHPLAN_TESTS)
  find_package(Catch2 REQUIRED)
endif()

# yaml-cpp 0.7 exports "yaml-cpp", 0.8 "yaml-cpp::yaml-cpp".
add_library(meshplan_yaml INTERFACE)
if(TARGET yaml-cpp::yaml-cpp)
  target_link_libraries(meshplan_yaml INTERFACE yaml-cpp::yaml-cpp)
else()
  target_link_libraries(meshplan_yaml INTERFACE yaml-cpp)
endif()

# Linked as an archive where there is one: the program then needs no package of it to run.
if(TARGET pugixml::static)
  add_library(meshplan_xml ALIAS pugixml::static)
else()
  add_library(meshplan_xml ALIAS pugixml::pugixml)
endif()

# toml++ is used as headers, in one source file, whichever way the distribution packs it. Ubuntu 22.04 has
# no package of it: -DTOMLPLUSPLUS_INCLUDE_DIR=... names the headers' folder there.
find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h)
set(tomlplusplus_version "")
if(TOMLPLUSPLUS_INCLUDE_DIR)
  file(GLOB version_file ${TOMLPLUSPLUS_INCLUDE_DIR}/toml++/impl/version.h*)
  if(version_file)
    list(GET version_file 0 version_file)
    file(STRINGS ${version_file} lines REGEX "define TOML_LIB_(MAJOR|MINOR|PATCH) ")
    string(REGEX MATCHALL "[0-9]+" tomlplusplus_version "${lines}")
    string(REPLACE ";" "." tomlplusplus_version "${tomlplusplus_version}")
  endif()
endif()
add_library(meshplan_toml INTERFACE)
if(tomlplusplus_version VERSION_GREATER_EQUAL 3)
  set(MESHPLAN_TOML TRUE)
  target_include_directories(meshplan_toml SYSTEM INTERFACE ${TOMLPLUSPLUS_INCLUDE_DIR})
  target_compile_definitions(meshplan_toml INTERFACE MESHPLAN_TOML=1)
else()
  set(MESHPLAN_TOML FALSE)
  message(WARNING "toml++ 3 or later was not found (libtomlplusplus-dev of Debian 12, Ubuntu 24.04 and later): "
                  "this build reads no TOML, which is torchtitan's job files. "
                  "-DTOMLPLUSPLUS_INCLUDE_DIR=... says where its headers are.")
endif()

# Optional, for Nsight Systems' exports.
find_package(SQLite3 QUIET)
if(SQLite3_FOUND)
  set(MESHPLAN_SQLITE TRUE)
else()
  set(MESHPLAN_SQLITE FALSE)
  message(STATUS "  SQLite was not found (libsqlite3-dev): this build does not read exports of Nsight Systems")
endif()

# Optional, for the device backends of bench and validate.
include(CheckLanguage)
find_package(CUDAToolkit QUIET)
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_package(MPI QUIET COMPONENTS CXX)
