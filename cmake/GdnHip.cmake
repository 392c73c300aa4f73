# Finds what compiles kernels for gfx906 (MI50, MI60, Radeon VII). Sets GDN_WITH_HIP, and
# GDN_HIP_ABSENT_REASON for `gdnbench info` when it is off. No HIP language is enabled: the host side
# is plain C++ (the runtime library is opened when a device is), and kernels are compiled to gfx906
# code objects by custom commands (gdn_gfx906_code_object).
#
# Accepted: clang 15 or later with the AMDGPU target, lld and llvm-objdump beside it, the ROCm device
# libraries and the HIP headers; from a ROCm installation (ROCM_PATH, /opt/rocm) or from the
# distribution's packages (clang-15 clang-tools-15 lld-15 llvm-15 rocm-device-libs libamdhip64-dev).
set(GDN_WITH_HIP OFF)
set(GDN_HIP_ABSENT_REASON "built with GDN_HIP=OFF")

# Sets GDN_HIP_CLANG, GDN_HIP_FLAGS (how that clang finds ROCm) and GDN_HIP_INCLUDE in the cache, or
# GDN_HIP_ABSENT_REASON in the caller's scope. The search tries to compile one kernel, once.
function(gdn_find_gfx906_compiler)
  file(GLOB distribution_folders /usr/lib/llvm-*/bin)
  list(SORT distribution_folders COMPARE NATURAL)
  set(roots $ENV{ROCM_PATH} /opt/rocm)
  set(candidates ${GDN_HIP_CLANG})
  foreach(folder $ENV{ROCM_PATH}/llvm/bin /opt/rocm/llvm/bin /opt/rocm/lib/llvm/bin ${distribution_folders})
    if(EXISTS ${folder}/clang++ AND EXISTS ${folder}/llvm-objdump AND EXISTS ${folder}/ld.lld)
      list(APPEND candidates ${folder}/clang++)
    endif()
  endforeach()
  if(NOT candidates)
    set(GDN_HIP_ABSENT_REASON "built without HIP (no clang with lld and llvm-objdump under /opt/rocm or /usr/lib/llvm-*)" PARENT_SCOPE)
    return()
  endif()
  find_path(GDN_HIP_BITCODE ocml.bc PATHS ${roots} /usr /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}
            PATH_SUFFIXES amdgcn/bitcode NO_DEFAULT_PATH DOC "ROCm device libraries")
  find_path(GDN_HIP_INCLUDE hip/hip_runtime_api.h PATHS ${roots} /usr PATH_SUFFIXES include NO_DEFAULT_PATH)
  if(NOT GDN_HIP_BITCODE)
    set(GDN_HIP_ABSENT_REASON "built without HIP (the ROCm device libraries, ocml.bc, were not found)" PARENT_SCOPE)
    return()
  elseif(NOT GDN_HIP_INCLUDE)
    set(GDN_HIP_ABSENT_REASON "built without HIP (hip/hip_runtime_api.h was not found)" PARENT_SCOPE)
    return()
  endif()
  get_filename_component(root ${GDN_HIP_INCLUDE} DIRECTORY)
  set(flags --rocm-path=${root} --rocm-device-lib-path=${GDN_HIP_BITCODE})
  set(source ${CMAKE_BINARY_DIR}/CMakeFiles/gfx906_check.hip)
  file(WRITE ${source} "#include <hip/hip_runtime.h>\nextern \"C\" __global__ void check(float* x) { x[threadIdx.x] = expf(x[threadIdx.x]); }\n")
  foreach(clang ${candidates})
    execute_process(COMMAND ${clang} -x hip --offload-arch=gfx906 ${flags} --offload-device-only --no-gpu-bundle-output
                            -O1 -c ${source} -o ${source}.co
                    RESULT_VARIABLE result ERROR_VARIABLE error OUTPUT_QUIET)
    if(result EQUAL 0)
      set(GDN_HIP_CLANG ${clang} CACHE FILEPATH "clang++ that compiles for gfx906" FORCE)
      set(GDN_HIP_FLAGS "${flags}" CACHE STRING "how that clang finds ROCm" FORCE)
      return()
    endif()
    string(REGEX MATCH "error: [^\n]*" reason "${error}")
  endforeach()
  set(GDN_HIP_ABSENT_REASON "built without HIP (${clang} compiled nothing for gfx906: ${reason})" PARENT_SCOPE)
endfunction()

if(NOT GDN_HIP STREQUAL "OFF")
  if(NOT GDN_HIP_FLAGS)
    gdn_find_gfx906_compiler()
  endif()
  if(GDN_HIP_FLAGS)
    set(GDN_WITH_HIP ON)
    get_filename_component(GDN_HIP_LLVM_BIN ${GDN_HIP_CLANG} DIRECTORY)
  elseif(GDN_HIP STREQUAL "ON")
    message(FATAL_ERROR "GDN_HIP=ON, but: ${GDN_HIP_ABSENT_REASON}")
  endif()
endif()
string(REPLACE "\"" "'" GDN_HIP_ABSENT_REASON "${GDN_HIP_ABSENT_REASON}")
message(STATUS "gfx906 HIP backend: ${GDN_WITH_HIP}")

# gdn_gfx906_code_object(OUT_PREFIX source.hip [extra compiler options...])
# OUT_PREFIX.co (device-only ELF for plain gfx906, valid for every sramecc/xnack setting of the cards)
# and OUT_PREFIX.lst (its llvm-objdump listing, which the emulator decodes).
function(gdn_gfx906_code_object prefix source)
  get_filename_component(source ${source} ABSOLUTE)
  get_filename_component(name ${prefix} NAME)
  add_custom_command(
    OUTPUT ${prefix}.co ${prefix}.lst
    COMMAND ${GDN_HIP_CLANG} -x hip --offload-arch=gfx906 ${GDN_HIP_FLAGS} -mcode-object-version=4 -std=c++17 -O3
            -ffp-contract=off -Wall -Wextra $<$<BOOL:${GDN_WERROR}>:-Werror> -I${CMAKE_SOURCE_DIR}/impls
            --offload-device-only --no-gpu-bundle-output -MD -MF ${prefix}.d -MT ${prefix}.co
            ${ARGN} -c ${source} -o ${prefix}.co
    COMMAND ${GDN_HIP_LLVM_BIN}/llvm-objdump -d --mcpu=gfx906 ${prefix}.co > ${prefix}.lst
    DEPENDS ${source} DEPFILE ${prefix}.d VERBATIM
    COMMENT "Compiling ${name} for gfx906")
endfunction()

# gdn_embed_code_objects(OUTPUT.cpp FUNCTION f NAMES name...)
# writes the source of  const std::vector<EmbeddedCodeObject>& gdn::hip::f()  with the code objects NAME.co and
# the listings NAME.lst of the current binary folder, packed.
function(gdn_embed_code_objects output)
  cmake_parse_arguments(ARG "" "FUNCTION" "NAMES" ${ARGN})
  set(entries "")
  set(declarations "")
  set(dependencies "")
  set(packer ${CMAKE_SOURCE_DIR}/cmake/pack_listing.awk)
  foreach(name ${ARG_NAMES})
    set(prefix ${CMAKE_CURRENT_BINARY_DIR}/${name})
    add_custom_command(OUTPUT ${prefix}.packed
      COMMAND awk -f ${packer} ${prefix}.lst > ${prefix}.packed
      DEPENDS ${packer} ${prefix}.lst VERBATIM COMMENT "Packing the listing of ${name}")
    foreach(kind co packed)
      string(APPEND declarations "GDN_EMBED(${name}_${kind}, \"${CMAKE_CURRENT_BINARY_DIR}/${name}.${kind}\")\n")
      list(APPEND dependencies ${CMAKE_CURRENT_BINARY_DIR}/${name}.${kind})
    endforeach()
    string(APPEND entries "      {\"${name}\", view(${name}_co, ${name}_co_end), view(${name}_packed, ${name}_packed_end)},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${output} @ONLY CONTENT [[
// Made by cmake/GdnHip.cmake: the bytes of each code object and of its packed listing.
#include "hip/code_objects.h"

#define GDN_EMBED(symbol, path)                                             \
  asm(".section .rodata\n.balign 4096\n" #symbol ":\n.incbin \"" path "\"\n" \
      #symbol "_end:\n.byte 0\n.previous\n");                               \
  extern "C" __attribute__((visibility("hidden"))) const char symbol[];     \
  extern "C" __attribute__((visibility("hidden"))) const char symbol##_end[];

@declarations@
namespace gdn::hip {

static std::string_view view(const char* first, const char* last) {
  return {first, static_cast<std::size_t>(last - first)};
}

const std::vector<EmbeddedCodeObject>& @ARG_FUNCTION@() {
  static const std::vector<EmbeddedCodeObject> objects = {
@entries@  };
  return objects;
}

}  // namespace gdn::hip
]])
  set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/${output} PROPERTIES OBJECT_DEPENDS "${dependencies}")
endfunction()
