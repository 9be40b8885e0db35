# SPDX-License-Identifier: Apache-2.0
"""Hides the vendor's plugin of the same name: the GPU belongs to salusd, and the job uses none of its own.

`salus run` puts this folder in front only if salusd serves a GPU. The vendor's plugin would load the
libraries of the GPU and take its name in JAX ("PJRT_Api already exists for device type cuda").
"""


def initialize():
    """Registers nothing."""
