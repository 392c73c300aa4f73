# Writes a header with the commit and the hash of the sources a measurement depends on: kernels, reference, harness and
# how they are built; tests left out. Run at every build (the header is touched only when the hash changes):
#   cmake -DSOURCE_DIR=. -DVERSION=0.1.0 -DHEADER=source_hash.h -P cmake/GdnSourceHash.cmake
# Without HEADER it prints the hash.
# It is of the files as they are, comments too, and needs no Python: rows say by it which build made them. The hash of
# the GPU record is another one (scripts/source_hash.py).
if(NOT SOURCE_DIR)
  get_filename_component(SOURCE_DIR ${CMAKE_CURRENT_LIST_DIR}/.. ABSOLUTE)
endif()
file(GLOB_RECURSE files RELATIVE ${SOURCE_DIR}
  ${SOURCE_DIR}/impls/*.h ${SOURCE_DIR}/impls/*.cuh ${SOURCE_DIR}/impls/*.cpp ${SOURCE_DIR}/impls/*.cu ${SOURCE_DIR}/impls/*.hip
  ${SOURCE_DIR}/impls/*.cmake ${SOURCE_DIR}/impls/CMakeLists.txt
  ${SOURCE_DIR}/reference/*.h ${SOURCE_DIR}/reference/*.cpp ${SOURCE_DIR}/harness/*.h ${SOURCE_DIR}/harness/*.cpp
  ${SOURCE_DIR}/cmake/*.cmake)
list(FILTER files EXCLUDE REGEX "/tests/")
list(SORT files)
set(listing "")
foreach(file ${files})
  file(SHA256 ${SOURCE_DIR}/${file} hash)
  string(APPEND listing "${hash}  ${file}\n")
endforeach()
string(SHA256 hash "${listing}")
if(NOT HEADER)
  message("${hash}")
  return()
endif()
# The commit of the sources, "+changes" behind it where files under version control differ from it; empty without Git, or
# where the sources are a folder of another repository.
set(commit "")
execute_process(COMMAND git -C ${SOURCE_DIR} rev-parse --show-prefix HEAD OUTPUT_VARIABLE head RESULT_VARIABLE failed
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT failed AND head MATCHES "^\n([0-9a-f]+)$")
  set(commit ${CMAKE_MATCH_1})
  execute_process(COMMAND git -C ${SOURCE_DIR} diff --quiet HEAD -- impls reference harness cmake RESULT_VARIABLE differs
    OUTPUT_QUIET ERROR_QUIET)
  if(differs)
    string(APPEND commit "+changes")
  endif()
endif()
set(content "// Made by cmake/GdnSourceHash.cmake at every build.\n#pragma once\n")
string(APPEND content "#define GDN_SOURCE_HASH \"${hash}\"\n#define GDN_VERSION \"${VERSION}\"\n")
string(APPEND content "#define GDN_SOURCE_COMMIT \"${commit}\"\n")
set(before "")
if(EXISTS ${HEADER})
  file(READ ${HEADER} before)
endif()
if(NOT before STREQUAL content)
  file(WRITE ${HEADER} "${content}")
endif()
