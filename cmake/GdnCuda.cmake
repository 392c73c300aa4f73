# Finds nvcc. Sets GDN_WITH_CUDA, and GDN_CUDA_ABSENT_REASON for `gdnbench info` when it is off.
# Targets: sm_90a machine code for kernels of Hopper's own instructions. For every other compute_80
# PTX, so that Ampere, Ada and Blackwell run it, and the sm_90 machine code of that same PTX
# (gdn_portable_cuda), which takes one compilation where compute_90a beside compute_80 takes two.
set(GDN_WITH_CUDA OFF)
set(GDN_CUDA_ABSENT_REASON "built with GDN_CUDA=OFF")
if(NOT GDN_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER)
    find_program(GDN_NVCC nvcc HINTS ENV CUDA_PATH /usr/local/cuda/bin PATH_SUFFIXES bin)
    if(GDN_NVCC)
      set(CMAKE_CUDA_COMPILER ${GDN_NVCC} CACHE FILEPATH "")
    endif()
  endif()
  if(CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_ARCHITECTURES 90a-real 80-virtual CACHE STRING "")
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(GDN_WITH_CUDA ON)
    if(CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA_STANDARD 20)
      set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    else()  # CMake before 3.26 does not know that nvcc 12 takes C++20
      string(APPEND CMAKE_CUDA_FLAGS " -std=c++20")
      set(CMAKE_CUDA_STANDARD_REQUIRED OFF)  # else it inherits the C++ setting and refuses
    endif()
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.0)
      message(FATAL_ERROR "nvcc ${CMAKE_CUDA_COMPILER_VERSION}: version 12.0 or later is needed for sm_90a")
    endif()
    # Keeps what ptxas says of each kernel beside its object, for the resource table.
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_SOURCE_DIR}/scripts/keep_ptxas_output.sh ${GDN_CUDA_CACHE})
  elseif(GDN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "GDN_CUDA=ON, but nvcc was not found (set CMAKE_CUDA_COMPILER)")
  else()
    set(GDN_CUDA_ABSENT_REASON "built without CUDA (nvcc was not found)")
  endif()
endif()
message(STATUS "CUDA backend: ${GDN_WITH_CUDA}")

# The CUDA sources of a target use nothing that is not in compute_80.
function(gdn_portable_cuda target)
  set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES OFF)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--generate-code=arch=compute_80,code=[compute_80,sm_90]>)
endfunction()
