# Compiler options shared by every target of the project, and the compiler cache if there is one.
add_library(gdn_warnings INTERFACE)
target_compile_options(gdn_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 reports overlapping copies inside its own std::string operator+ (GCC bug 105651).
  target_compile_options(gdn_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(GDN_WERROR)
  target_compile_options(gdn_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
if(GDN_ASSERTIONS)
  target_compile_options(gdn_warnings INTERFACE -UNDEBUG)
endif()
if(GDN_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${GDN_SANITIZE}>
    $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer> $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>)
  # AddressSanitizer stops at null pointers too, and a check before every access takes a sixth of the compilation.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=null>)
  add_link_options(-fsanitize=${GDN_SANITIZE})
endif()

# gdn_of_matrices(targets...): code of Eigen's matrices, which align themselves. Sanitizers do not ask each of their
# accesses for its alignment, which takes a third of the compilation.
function(gdn_of_matrices)
  if(GDN_SANITIZE)
    foreach(target ${ARGN})
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=alignment>)
    endforeach()
  endif()
endfunction()

find_program(GDN_CCACHE ccache)
if(GDN_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${GDN_CCACHE})
  set(GDN_CUDA_CACHE ${GDN_CCACHE})
endif()

# gdn_unity(target SIZE [APART sources...]): the target's sources are compiled SIZE at a time, which takes
# less than half the time (the harness 100 -> 40 s): what they include is read once, and what they instantiate alike is compiled once.
# Those of APART stay on their own: they define a name for themselves that another one has too.
option(GDN_UNITY "Compile sources in groups: less time from nothing, more after an edit" ON)
function(gdn_unity target size)
  cmake_parse_arguments(ARG "" "" "APART" ${ARGN})
  if(GDN_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
    set_source_files_properties(${ARG_APART} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()
