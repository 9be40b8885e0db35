# SPDX-License-Identifier: Apache-2.0
"""JAX imports every module of the namespace package jax_plugins, and calls its initialize()."""


def initialize():
    from salus_client import for_jax

    for_jax.register()
