# gdn_operation_registry(OUTPUT INCLUDE header NAMESPACE a::b SUFFIX s OBJECT type ELEMENT type FUNCTION f ADD g)
# writes the source of  const std::vector<ELEMENT>& FUNCTION()  with what NAME_SUFFIX() returns, a const
# OBJECT&, for each operation NAME of impls/operations.cmake, in its order, and of  void ADD(ELEMENT),  which
# puts another behind them. ELEMENT is a pointer to it, or made of it.
function(gdn_operation_registry output)
  cmake_parse_arguments(ARG "" "INCLUDE;NAMESPACE;SUFFIX;OBJECT;ELEMENT;FUNCTION;ADD" "" ${ARGN})
  set(declarations "")
  set(entries "")
  foreach(operation ${GDN_OPERATIONS})
    string(APPEND declarations "const ${ARG_OBJECT}& ${operation}_${ARG_SUFFIX}();\n")
    if(ARG_ELEMENT MATCHES "\\*$")
      string(APPEND entries "      &${operation}_${ARG_SUFFIX}(),\n")
    else()
      string(APPEND entries "      ${ARG_ELEMENT}(${operation}_${ARG_SUFFIX}()),\n")
    endif()
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${output} @ONLY CONTENT [[
// Made by cmake/GdnOperations.cmake from impls/operations.cmake.
#include "@ARG_INCLUDE@"

namespace @ARG_NAMESPACE@ {

@declarations@
static std::vector<@ARG_ELEMENT@>& all_@ARG_FUNCTION@() {
  static std::vector<@ARG_ELEMENT@> all = {
@entries@  };
  return all;
}
const std::vector<@ARG_ELEMENT@>& @ARG_FUNCTION@() { return all_@ARG_FUNCTION@(); }
void @ARG_ADD@(@ARG_ELEMENT@ another) { all_@ARG_FUNCTION@().push_back(another); }

}  // namespace @ARG_NAMESPACE@
]])
endfunction()
