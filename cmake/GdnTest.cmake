# gdn_test(NAME SOURCES a.cpp ... LIBRARIES x ... [TIMEOUT seconds] [COST n] [APART x.cpp ...]): one GoogleTest executable,
# each of its tests a ctest test, parametrised ones under the names their suites give them (not the
# printed parameters, which may be addresses). ctest starts those of higher COST first. Tests are
# compiled for the compiler's speed: what they test is not. In groups (gdn_unity), but for those of
# APART.
# gdn_test_sources(NAME a.cpp ... [APART x.cpp ...]): sources for the program NAME from another folder, which names them
# before gdn_test makes it.
# gdn_header_checks(NAME ROOT headers... LIBRARIES ...): every public header compiles alone. Left out of builds with
# sanitizers: the answer is the same in the build without them, and nothing of what is compiled here runs.
if(GDN_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

function(gdn_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;COST" "SOURCES;LIBRARIES;APART" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(NOT ARG_COST)
    set(ARG_COST 0)
  endif()
  get_property(sources GLOBAL PROPERTY GDN_TEST_SOURCES_${name})
  get_property(apart GLOBAL PROPERTY GDN_TEST_APART_${name})
  add_executable(${name} ${ARG_SOURCES} ${sources})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} gdn_warnings GTest::gtest_main)
  target_compile_options(${name} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
  target_compile_definitions(${name} PRIVATE GDN_SOURCE_DIR="${CMAKE_SOURCE_DIR}" GDN_BINARY_DIR="${CMAKE_BINARY_DIR}")
  gdn_unity(${name} 8 APART ${ARG_APART} ${apart})
  gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES
    PROPERTIES TIMEOUT ${ARG_TIMEOUT} COST ${ARG_COST})
endfunction()

function(gdn_test_sources name)
  cmake_parse_arguments(ARG "" "" "APART" ${ARGN})
  foreach(source ${ARG_UNPARSED_ARGUMENTS})
    set_property(GLOBAL APPEND PROPERTY GDN_TEST_SOURCES_${name} ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  endforeach()
  foreach(source ${ARG_APART})
    set_property(GLOBAL APPEND PROPERTY GDN_TEST_APART_${name} ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  endforeach()
endfunction()

function(gdn_header_checks name)
  cmake_parse_arguments(ARG "" "ROOT" "HEADERS;LIBRARIES" ${ARGN})
  if(NOT GDN_TESTS OR GDN_SANITIZE)
    return()
  endif()
  set(sources)
  foreach(header ${ARG_HEADERS})
    file(RELATIVE_PATH relative ${ARG_ROOT} ${header})
    string(REPLACE "/" "_" stem ${relative})
    set(source ${CMAKE_BINARY_DIR}/header_checks/${name}/${stem}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${relative}\"\n#include \"${relative}\"  // twice: guarded\n")
    list(APPEND sources ${source})
  endforeach()
  add_library(${name} OBJECT ${sources})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} gdn_warnings)
endfunction()
