# SPDX-License-Identifier: Apache-2.0
"""The wheel's tag: any Python 3, this machine. The library uses no Python."""

import setuptools
from setuptools.command.bdist_wheel import bdist_wheel


class Wheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class Machine(setuptools.Distribution):
    """Holds machine code, though nothing here compiles it."""

    def has_ext_modules(self):
        return True


setuptools.setup(cmdclass={"bdist_wheel": Wheel}, distclass=Machine)
