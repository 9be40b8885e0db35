# SPDX-License-Identifier: Apache-2.0
"""A script prints under `salus run` what it prints under `python`, on JAX's built-in backend.

Text is compared, not bits: the built-in backend and the vendor's plugin are different builds of XLA. The scripts use
what the plugin alone does not have: linear algebra and callbacks.
"""

import pytest


@pytest.mark.parametrize("script", ["checkpoint.py"])
def test_same_output(script, daemon, salus, builtin, examples):
    alone = builtin(examples / script, deadline_s=300)
    assert alone.code == 0 and alone.stdout, alone.describe()
    run = salus(examples / script, deadline_s=300)
    assert run.code == 0, run.describe()
    assert run.stdout == alone.stdout
    assert daemon.is_alive()
