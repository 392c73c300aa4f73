# What a Python wheel holds (pyproject.toml): the modules where they are imported from, and in gdnbench/installed/ the
# program with its data and the C library, which the modules find from their own place (gdnbench_place). A component of
# its own that no other installation takes. Links would become copies in a wheel, so that the library has one name.
set(wheel gdnbench_wheel)
set(installed gdnbench/installed)
install(TARGETS gdnbench RUNTIME DESTINATION ${installed} COMPONENT ${wheel} EXCLUDE_FROM_ALL)
install(PROGRAMS $<TARGET_FILE:gdnbench_c> DESTINATION ${installed} RENAME libgdnbench.so COMPONENT ${wheel} EXCLUDE_FROM_ALL)
install(FILES data/gdn_lm_trace.h5 DESTINATION ${installed}/data COMPONENT ${wheel} EXCLUDE_FROM_ALL)
install(DIRECTORY data/baselines DESTINATION ${installed}/data COMPONENT ${wheel} EXCLUDE_FROM_ALL)
install(FILES scripts/gdnbench_library.py scripts/gdnbench_torch.py DESTINATION . COMPONENT ${wheel} EXCLUDE_FROM_ALL)
install(DIRECTORY scripts/gdnbench DESTINATION . COMPONENT ${wheel} EXCLUDE_FROM_ALL FILES_MATCHING PATTERN "*.py"
  PATTERN "*_test.py" EXCLUDE PATTERN __pycache__ EXCLUDE)
file(CONFIGURE OUTPUT ${made}/wheel/gdnbench_place.py CONTENT "# Where the library and the program lie, from this folder.
LIBRARY = \"${installed}/libgdnbench.so\"
PROGRAM = \"${installed}/gdnbench\"
")
install(FILES ${made}/wheel/gdnbench_place.py DESTINATION . COMPONENT ${wheel} EXCLUDE_FROM_ALL)
