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
  add_link_options(-fsanitize=${GDN_SANITIZE})
endif()

find_program(GDN_CCACHE ccache)
if(GDN_CCACHE)
  # The second leave is needed for precompiled headers: sources may not use __TIME__.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${GDN_CCACHE})
  set(GDN_CUDA_CACHE ${GDN_CCACHE})
endif()
