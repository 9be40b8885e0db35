# SPDX-License-Identifier: Apache-2.0
"""The device SALUS of PyTorch/XLA. torch_xla imports this module through the entry point torch_xla.plugins."""

import os

from salus_client import job
from torch_xla.experimental import plugins


class Plugin(plugins.DevicePlugin):
    """One device, one process: what torch_xla's own class assumes."""

    def library_path(self):
        return job.library_path()

    def configure_single_process(self):
        """Nothing to do: a process never has more than one device."""


def select():
    """Makes SALUS the device of this process, unless the user chose a device that salusd does not serve."""
    platform = job.platform()
    if platform and os.environ.get("PJRT_DEVICE", "") in ("", platform.upper()):
        os.environ["PJRT_DEVICE"] = "SALUS"


select()
