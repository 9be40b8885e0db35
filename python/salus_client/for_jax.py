# SPDX-License-Identifier: Apache-2.0
"""Registers libsalus_pjrt.so with JAX, from 0.5.3 on.

Under `salus run` JAX itself registers the library, from PJRT_NAMES_AND_LIBRARY_PATHS. That also works
if Python ignores PYTHONPATH (-E, -I) and this module is never found. All that is left to do here is to
tell JAX that the platform is known: otherwise JAX warns that it is "experimental".

With the client wheel this module registers the library. JAX's core knows the library as "salus", so
that it can never collide with the vendor's plugin for the same platform. JAX's list of backends has it
under the platform's own name: `jax.devices("cpu")` and `jax.config.jax_platforms` mean the Salus device.
"""

import os

from salus_client import approximate, dumps, inspection, job, old_jax, placement

NAME = "salus"
PRIORITY = 1000  # above the vendors' plugins (500): the Salus device is the default


def accept_platform(bridge, platform):
    """No warning for this platform; and CUDA needs no GPU in this machine or container."""
    known = getattr(bridge, "_nonexperimental_plugins", None)
    if isinstance(known, set):
        known.add(platform)
    hardware = getattr(bridge, "hardware_utils", None)
    if platform == "cuda" and hasattr(hardware, "has_visible_nvidia_gpu"):
        hardware.has_visible_nvidia_gpu = lambda: True


def tell_devices(bridge, platform):
    """jax_num_cpu_devices goes to JAX's own CPU backend only. Our library reads it while it starts."""
    setting = getattr(bridge, "num_cpu_devices", None)
    if setting is None:
        setting = getattr(bridge, "NUM_CPU_DEVICES", None)  # an older JAX

    def wrap(c_api=None):
        registration = bridge._backend_factories.get(platform)
        if registration is None or getattr(registration.factory, "tells_devices", False):
            return
        create = registration.factory

        def factory(*args, **kwargs):
            if setting is not None and setting.value > 0:
                os.environ["SALUS_HOST_DEVICES"] = str(setting.value)
            try:
                return create(*args, **kwargs)
            finally:
                os.environ.pop("SALUS_HOST_DEVICES", None)

        factory.tells_devices = True
        registration.factory = factory

    bridge.register_plugin_callbacks(wrap)


def take_place(bridge, platform):
    """Registers the library under the platform's name, in place of any other backend there."""
    bridge.register_plugin(NAME, library_path=job.library_path(), priority=PRIORITY)
    ours = bridge._backend_factories.pop(NAME)
    ours.experimental = False
    topology = bridge._topology_factories.pop(NAME, None)

    def put(c_api=None):
        bridge._backend_factories[platform] = ours
        if topology is not None:
            bridge._topology_factories[platform] = topology

    put()
    # A plugin that JAX finds after ours may take the name again. JAX calls this after the last one.
    bridge.register_plugin_callbacks(put)


def refuse(bridge, reason):
    """Makes every backend fail: the job must not run beside Salus."""
    def fail(*args, **kwargs):
        raise RuntimeError(f"SALUS_REQUIRED is set, but {reason}")

    def spoil(c_api=None):
        for registration in bridge._backend_factories.values():
            registration.factory = fail
            registration.fail_quietly = False

    spoil()
    bridge.register_plugin_callbacks(spoil)


def register():
    import jax._src.xla_bridge as bridge

    try:
        platform = job.platform()
    except job.Unreachable as error:
        refuse(bridge, error)
        return
    if platform is None:
        return
    accept_platform(bridge, platform)
    dumps.watch()
    if not job.launched_platform():
        take_place(bridge, platform)
    tell_devices(bridge, platform)
    old_jax.install(job.library_path(), platform)
    placement.install(platform)
    approximate.install(platform)
    inspection.install(platform)
