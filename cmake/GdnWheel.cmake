# What a Python wheel holds (pyproject.toml): the modules where they are imported from, and in gdnbench/installed/ the
# program with its data, the C library and the headers of plug-ins, which the modules find from their own place (gdnbench_place). A component of
# its own that no other installation takes. Links would become copies in a wheel, so that the library has one name.
# The program's shared libraries come with it, under the names by which they are looked for, for a machine that has none
# of them, or others: all but those of the C and C++ runtimes, of which a later one than this machine's is needed.
set(wheel gdnbench_wheel)
set(installed gdnbench/installed)
install(TARGETS gdnbench RUNTIME DESTINATION ${installed} COMPONENT ${wheel} EXCLUDE_FROM_ALL)
install(PROGRAMS $<TARGET_FILE:gdnbench_c> DESTINATION ${installed} RENAME libgdnbench.so COMPONENT ${wheel} EXCLUDE_FROM_ALL)
install(FILES harness/c_library/gdnbench.h impls/plugin/gdnbench_plugin.h DESTINATION ${installed}/include COMPONENT ${wheel}
  EXCLUDE_FROM_ALL)
install(CODE "
  file(GET_RUNTIME_DEPENDENCIES EXECUTABLES \"$<TARGET_FILE:gdnbench>\" RESOLVED_DEPENDENCIES_VAR found
    UNRESOLVED_DEPENDENCIES_VAR missing
    PRE_EXCLUDE_REGEXES \"^ld-linux\" \"^lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc[+][+])[.]so\" \"^lib(cuda|cublas|cudart|nvidia)\")
  if(missing)
    message(FATAL_ERROR \"wheel: shared libraries of gdnbench are not found: \${missing}\")
  endif()
  set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${installed}/lib\")
  file(MAKE_DIRECTORY \"\${folder}\")
  foreach(library IN LISTS found)
    get_filename_component(name \"\${library}\" NAME)
    file(REAL_PATH \"\${library}\" real)
    file(COPY_FILE \"\${real}\" \"\${folder}/\${name}\")
  endforeach()
" COMPONENT ${wheel} EXCLUDE_FROM_ALL)
install(FILES data/gdn_lm_trace.h5 DESTINATION ${installed}/data COMPONENT ${wheel} EXCLUDE_FROM_ALL)
install(DIRECTORY data/baselines DESTINATION ${installed}/data COMPONENT ${wheel} EXCLUDE_FROM_ALL)
install(FILES scripts/gdnbench_library.py scripts/gdnbench_torch.py DESTINATION . COMPONENT ${wheel} EXCLUDE_FROM_ALL)
install(DIRECTORY scripts/gdnbench DESTINATION . COMPONENT ${wheel} EXCLUDE_FROM_ALL FILES_MATCHING PATTERN "*.py"
  PATTERN "*_test.py" EXCLUDE PATTERN __pycache__ EXCLUDE)
file(CONFIGURE OUTPUT ${made}/wheel/gdnbench_place.py CONTENT "# Where the library, the program and the headers lie, from this folder.
LIBRARY = \"${installed}/libgdnbench.so\"
PROGRAM = \"${installed}/gdnbench\"
HEADERS = \"${installed}/include\"
")
install(FILES ${made}/wheel/gdnbench_place.py DESTINATION . COMPONENT ${wheel} EXCLUDE_FROM_ALL)
