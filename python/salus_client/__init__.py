# SPDX-License-Identifier: Apache-2.0
"""The Python side of libsalus_pjrt.so: how JAX and PyTorch/XLA find the library.

`salus run` puts the folder of this package on PYTHONPATH. The client wheel installs the same package.
No module imports a framework before that framework has asked for it.
"""
