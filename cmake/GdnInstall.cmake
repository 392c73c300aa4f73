# What `cmake --install` and `cpack -G DEB` make of a build: docs/install.md says what lies where and what versions
# mean. Everything is found from its own place, so that an installed folder may be moved: destinations are relative to
# the prefix, and whatever names another file of the package does so from where it lies itself.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

foreach(folder BINDIR LIBDIR INCLUDEDIR DATADIR MANDIR DOCDIR)
  set(given ${CMAKE_INSTALL_${folder}})
  if(IS_ABSOLUTE "${given}")
    message(FATAL_ERROR "CMAKE_INSTALL_${folder}: '${given}', expected a folder relative to the prefix")
  endif()
endforeach()
# From a folder of the package to a file of it, both relative to the prefix.
function(gdn_path_between from to result)
  file(RELATIVE_PATH path /prefix/${from} /prefix/${to})
  string(REGEX REPLACE "/$" "" path "${path}")
  set(${result} ${path} PARENT_SCOPE)
endfunction()
# harness/files/data_file.h looks there.
gdn_path_between(${CMAKE_INSTALL_BINDIR} ${CMAKE_INSTALL_DATADIR}/gdnbench data_from_program)
if(NOT data_from_program STREQUAL "../share/gdnbench")
  message(FATAL_ERROR "CMAKE_INSTALL_DATADIR: '${CMAKE_INSTALL_DATADIR}', expected 'share' beside CMAKE_INSTALL_BINDIR "
    "('${CMAKE_INSTALL_BINDIR}'): the program finds its data in ../share/gdnbench")
endif()

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME gdnbench)  # all of it, and nothing that a build may come to install besides
set(made ${CMAKE_BINARY_DIR}/made_for_install)
set(data ${CMAKE_INSTALL_DATADIR}/gdnbench)

# ---- the program, its data, and what it says of itself: the manual page and the completions
install(TARGETS gdnbench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES data/gdn_lm_trace.h5 DESTINATION ${data}/data)
install(DIRECTORY data/baselines DESTINATION ${data}/data)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
function(gdn_install_output file destination)  # file, destination, then the program's arguments
  install(CODE "execute_process(COMMAND \"$<TARGET_FILE:gdnbench>\" ${ARGN} OUTPUT_FILE \"${made}/${file}\"
    COMMAND_ERROR_IS_FATAL ANY)")
  install(FILES ${made}/${file} DESTINATION ${destination})
  # Root may have made it, and who builds could not write it again.
  install(CODE "file(REMOVE \"${made}/${file}\")")
endfunction()
file(MAKE_DIRECTORY ${made})
gdn_install_output(gdnbench.1 ${CMAKE_INSTALL_MANDIR}/man1 man)
gdn_install_output(gdnbench ${CMAKE_INSTALL_DATADIR}/bash-completion/completions completion bash)
gdn_install_output(_gdnbench ${CMAKE_INSTALL_DATADIR}/zsh/site-functions completion zsh)
gdn_install_output(gdnbench.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d completion fish)

# ---- the C library, for find_package(gdnbench) and pkg-config
install(TARGETS gdnbench_c EXPORT gdnbench LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES harness/c_library/gdnbench.h impls/plugin/gdnbench_plugin.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/gdnbench)
# The exported targets are the whole configuration: the library needs no other package.
install(EXPORT gdnbench NAMESPACE gdnbench:: FILE gdnbenchConfig.cmake DESTINATION ${package})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(compatible SameMinorVersion)
else()
  set(compatible SameMajorVersion)
endif()
write_basic_package_version_file(${made}/gdnbenchConfigVersion.cmake COMPATIBILITY ${compatible})
install(FILES ${made}/gdnbenchConfigVersion.cmake DESTINATION ${package})
gdn_path_between(${CMAKE_INSTALL_LIBDIR}/pkgconfig "" prefix_from_pc)
configure_file(cmake/gdnbench.pc.in ${made}/gdnbench.pc @ONLY)
install(FILES ${made}/gdnbench.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# ---- the Python modules, and the one that tells them where the library was installed
set(python ${data}/python)
install(FILES scripts/gdnbench_library.py scripts/gdnbench_torch.py DESTINATION ${python})
install(DIRECTORY scripts/gdnbench DESTINATION ${python} FILES_MATCHING PATTERN "*.py"
  PATTERN "*_test.py" EXCLUDE PATTERN __pycache__ EXCLUDE)
gdn_path_between(${python} ${CMAKE_INSTALL_LIBDIR}/libgdnbench.so.${GDN_ABI_VERSION} library_from_python)
gdn_path_between(${python} ${CMAKE_INSTALL_BINDIR}/gdnbench program_from_python)
gdn_path_between(${python} ${CMAKE_INSTALL_INCLUDEDIR} headers_from_python)
file(CONFIGURE OUTPUT ${made}/gdnbench_place.py
  CONTENT "# Where the library, the program and the headers were installed, from this folder.
LIBRARY = \"${library_from_python}\"
PROGRAM = \"${program_from_python}\"
HEADERS = \"${headers_from_python}\"
")
install(FILES ${made}/gdnbench_place.py DESTINATION ${python})

# ---- the Debian package
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The gdnbench maintainers")
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS python3)
# Instead of the scripts that CPack adds to a package with a library, postinst and postrm that call ldconfig, the
# trigger that Debian has for it. CPack leaves out its own where others are named, and warns that these do not exist.
file(WRITE ${made}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${made}/triggers ${made}/no_maintainer_scripts/postinst ${made}/no_maintainer_scripts/postrm)
include(CPack)
