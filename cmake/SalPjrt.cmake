# SPDX-License-Identifier: Apache-2.0
#
# The vendor's side of the device: a folder with include/pjrt_c_api.h and a plugin, as the wheel
# xla-cpu-pjrt has it. tools/setup puts one into .venv; set SAL_PJRT_DIR to take another.
#
#   SAL_PJRT_INCLUDE_DIR   where pjrt_c_api.h is; only for what drives or imitates a plugin
#   SAL_PJRT_PLUGIN        the plugin that salusd takes when it is not told of another

set(SAL_PJRT_DIR "" CACHE PATH "Folder with include/pjrt_c_api.h and xla_cpu_pjrt.so; default: from .venv")

set(sal_pjrt_dir "${SAL_PJRT_DIR}")
if(NOT sal_pjrt_dir)
  file(GLOB sal_pjrt_dir # a folder named after the version of Python, not sources
    "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/xla_plugins/xla_cpu_pjrt")
  list(APPEND sal_pjrt_dir "${PROJECT_SOURCE_DIR}/.venv")
  list(GET sal_pjrt_dir 0 sal_pjrt_dir)
endif()

# XLA's interface for custom calls, as the wheel jaxlib has it.
#
#   SAL_FFI_INCLUDE_DIR    where xla/ffi/api/c_api.h is

set(SAL_JAXLIB_DIR "" CACHE PATH "Folder with include/xla/ffi/api/c_api.h; default: from .venv")

set(sal_jaxlib_dir "${SAL_JAXLIB_DIR}")
if(NOT sal_jaxlib_dir)
  file(GLOB sal_jaxlib_dir "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/jaxlib")
  list(APPEND sal_jaxlib_dir "${PROJECT_SOURCE_DIR}/.venv")
  list(GET sal_jaxlib_dir 0 sal_jaxlib_dir)
endif()
set(SAL_FFI_INCLUDE_DIR "${sal_jaxlib_dir}/include")
if(NOT EXISTS "${SAL_FFI_INCLUDE_DIR}/xla/ffi/api/c_api.h")
  message(FATAL_ERROR "There is no ${SAL_FFI_INCLUDE_DIR}/xla/ffi/api/c_api.h. Run tools/setup, which "
    "installs the package jaxlib, or set SAL_JAXLIB_DIR to a folder that has it.")
endif()

set(SAL_PJRT_INCLUDE_DIR "${sal_pjrt_dir}/include")
set(SAL_PJRT_PLUGIN "${sal_pjrt_dir}/xla_cpu_pjrt.so")
foreach(file IN ITEMS "${SAL_PJRT_INCLUDE_DIR}/pjrt_c_api.h" "${SAL_PJRT_PLUGIN}")
  if(NOT EXISTS "${file}")
    message(FATAL_ERROR "There is no ${file}. Run tools/setup, which installs the package "
      "xla-cpu-pjrt, or set SAL_PJRT_DIR to a folder with include/pjrt_c_api.h and xla_cpu_pjrt.so.")
  endif()
endforeach()

# LAPACK for linear algebra, as the wheel scipy-openblas32 has it. salusd loads it when a job needs it,
# and the system's LAPACK if the file is not there.
#
#   SAL_LAPACK             the library; may be empty

set(SAL_LAPACK "" CACHE FILEPATH "LAPACK library of salusd; default: from .venv, then the system's")
if(NOT SAL_LAPACK)
  file(GLOB sal_lapack
    "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/scipy_openblas32/lib/libscipy_openblas.so")
  list(APPEND sal_lapack "")
  list(GET sal_lapack 0 sal_lapack)
  set(SAL_LAPACK "${sal_lapack}")
endif()
