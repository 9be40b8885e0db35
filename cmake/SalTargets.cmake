# SPDX-License-Identifier: Apache-2.0
#
# The three kinds of target. Each takes a name, SOURCES (paths relative to the calling list) and
# LIBS (our layers by name, others as PkgConfig::NAME).

# A layer: a static library, build*/static/lib<name>.a.
function(sal_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC ${arg_LIBS})
endfunction()

# A program: build*/bin/<name>, installed to bin/.
function(sal_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBS})
  install(TARGETS ${name} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endfunction()

# A cmocka test: build*/tests/<name>, run by ctest. It finds files of the tree through SAL_SOURCE_DIR.
function(sal_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} PkgConfig::CMOCKA)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES
    TIMEOUT 300
    ENVIRONMENT "SAL_SOURCE_DIR=${PROJECT_SOURCE_DIR};UBSAN_OPTIONS=print_stacktrace=1;ASAN_OPTIONS=intercept_memmem=0")
endfunction()
