# SPDX-License-Identifier: Apache-2.0
#
# The language, the warnings and the sanitizers, the same for every target.

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

if(SAL_SANITIZE)
  add_compile_options(
    -fsanitize=${SAL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SAL_SANITIZE})
endif()
