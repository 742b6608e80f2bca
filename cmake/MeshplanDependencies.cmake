# Required packages (Debian names in scripts/install_packages).
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(spdlog REQUIRED)
find_package(TBB QUIET)
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

# Optional, for the device backends of bench and validate.
include(CheckLanguage)
find_package(CUDAToolkit QUIET)
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_package(MPI QUIET COMPONENTS CXX)
