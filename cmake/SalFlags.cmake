# SPDX-License-Identifier: Apache-2.0
#
# The language, the warnings, the hardening and the sanitizers, the same for every target.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON) # the layers also go into libsalus_pjrt.so
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)   # for clang-tidy

# Products where people look for them, our static libraries out of their way.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/static")

add_compile_definitions(_GNU_SOURCE)
include_directories("${PROJECT_SOURCE_DIR}/src")
add_compile_options(
  -Wall
  -Wextra
  -Wmissing-prototypes
  -Wpointer-arith
  -Wshadow
  -Wstrict-prototypes
  -Wundef
  -Wvla
  "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=" # __FILE__ names a file of the tree, not of a machine
)

if(CMAKE_C_COMPILER_ID STREQUAL Clang)
  # Who holds the lock (src/service/lock.h). The names of it stand behind definitions, too, which gcc would not take.
  add_compile_options(-Wthread-safety -Wno-gcc-compat)
endif()

if(SAL_WERROR)
  add_compile_options(-Werror)
endif()

# Hardening: an overrun that is found ends the process instead of going on. All addresses are random, all that the
# linker writes is read-only once the program runs, and no stack can be executed. tests/unit/tools/test_hardening.py
# looks for each in the products.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)
add_compile_options(-fstack-protector-strong)
check_c_compiler_flag(-fstack-clash-protection SAL_HAS_STACK_CLASH)
if(SAL_HAS_STACK_CLASH)
  add_compile_options(-fstack-clash-protection)
endif()
add_link_options("LINKER:-z,relro,-z,now,-z,noexecstack")

# Level 3 where the compiler and the C library know it. Needs an optimizing build; sanitizers check more themselves.
set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
check_c_source_compiles("#include <stdio.h>\nint main(void) { return puts(\"\") < 0; }" SAL_HAS_FORTIFY_3)
unset(CMAKE_REQUIRED_FLAGS)
if(NOT SAL_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$<IF:$<BOOL:${SAL_HAS_FORTIFY_3}>,3,2>)
endif()

if(SAL_SANITIZE)
  add_compile_options(
    -fsanitize=${SAL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SAL_SANITIZE})
endif()
