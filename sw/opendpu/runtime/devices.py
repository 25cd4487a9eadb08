# SPDX-License-Identifier: Apache-2.0
"""Finding devices: software knows them by entry point, never by import."""

import importlib.metadata
import os
from collections.abc import Callable
from typing import Any

from opendpu.runtime.device import Device
from opendpu.runtime.pool import DevicePool, SharedPools, check_cores, cores_of_list
from opendpu.runtime.worker import WorkerDevice
from opendpu_arch.errors import DPUError, UnsupportedError
from opendpu_arch.target import Target

GROUP = "opendpu.device"
DEVICE_VARIABLE = "OPENDPU_DEVICE"
MEMORY_VARIABLE = "OPENDPU_MEMORY"
CORES_VARIABLE = "XLNX_DPU_DEVICE_CORES"
PROCESSES_VARIABLE = "OPENDPU_PROCESSES"
DEFAULT_DEVICE = "iss"
DEFAULT_MEMORY = "kv260"
EXTRAS = {"litex": "boards"}
"""Extra of the package that a device needs, where it is not ``sim``."""
TARGET_VARIABLE = "XLNX_TARGET_NAME"
"""Names the target where nothing else does, as in the guide's Table 34."""
DEFAULT_TARGET = "B4096"
"""DPU where nothing says which."""

_POOLS = SharedPools()


def known_devices() -> list[str]:
    """Return the names of the installed devices."""
    return sorted({entry.name for entry in importlib.metadata.entry_points(group=GROUP)})


def open_device(
    name: str | None = None,
    target: Target | str = DEFAULT_TARGET,
    memory: str | None = None,
    *,
    cores: int | None = None,
    processes: bool | None = None,
    **options: Any,
) -> Device:
    """Return a new device, or a lease of cores that this process shares.

    ``name`` and ``memory`` default to the environment's ``OPENDPU_DEVICE`` and
    ``OPENDPU_MEMORY``, then to ``iss`` and ``kv260``; the device gets ``options`` as keywords.

    With ``cores``, as with numbers of cores in ``XLNX_DPU_DEVICE_CORES`` (``0,1,2,3`` are four),
    everybody in this process who asks for the same gets a :class:`~opendpu.runtime.pool.Lease` of
    one pool of so many devices, each of which runs one job at a time; 0 is a device of one's own.
    With ``processes``, or ``OPENDPU_PROCESSES=1``, each of them has a process of its own.

    Raises
    ------
    UnsupportedError
        No device of this name is installed, or ``cores`` is no number of cores.
    TargetError
        ``target`` names no target.
    """
    name = _chosen(name)
    memory = memory or os.environ.get(MEMORY_VARIABLE) or DEFAULT_MEMORY
    constructor = _constructor(name)
    chosen = Target.from_name(target) if isinstance(target, str) else target
    apart = os.environ.get(PROCESSES_VARIABLE) == "1" if processes is None else processes
    count = _count(cores, 1 if apart else 0)

    def single() -> Device:
        device = constructor(chosen, memory=memory, **options)
        if not isinstance(device, Device):
            raise DPUError(f"device {name!r} is a {type(device).__name__}, which is no Device")
        return device

    def worker() -> Device:
        return WorkerDevice(name, chosen, memory, options)

    if not count:
        return single()
    key = (name, chosen, memory, count, apart, repr(sorted(options.items())))
    return _POOLS.lease(key, lambda: _pool_of(count, worker if apart else single))


def _pool_of(count: int, make: Callable[[], Device]) -> DevicePool:
    """Return a pool of new devices; what was made is closed where one cannot be."""
    made: list[Device] = []
    try:
        for _ in range(count):
            made.append(make())
    except BaseException:
        for device in made:
            device.close()
        raise
    return DevicePool(made)


def _count(cores: int | None, least: int) -> int:
    """Return how many cores are asked for; 0 for a device that nobody shares."""
    if cores == 0:
        return 0
    if cores is not None:
        return check_cores(cores, "cores")
    listed = os.environ.get(CORES_VARIABLE)
    return cores_of_list(listed, CORES_VARIABLE) if listed else least


def core_count() -> int:
    """Return how many cores a runner finds: one of its own, or those that the environment names.

    Raises
    ------
    UnsupportedError
        The variable names no cores.
    """
    return _count(None, 1)


def check_device(name: str | None = None) -> None:
    """Check, before long work, that a device is installed and finds the programs it needs.

    A device that needs programs of the host has a class method ``check_host`` that looks for them.

    Raises
    ------
    UnsupportedError
        No device of this name is installed.
    ToolError
        A program of the host is missing.
    """
    check_host = getattr(_constructor(_chosen(name)), "check_host", None)
    if check_host is not None:
        check_host()


def _chosen(name: str | None) -> str:
    return name or os.environ.get(DEVICE_VARIABLE) or DEFAULT_DEVICE


def _constructor(name: str) -> Callable[..., Any]:
    """Return what makes the device of this name."""
    found = [e for e in importlib.metadata.entry_points(group=GROUP) if e.name == name]
    if not found:
        known = ", ".join(known_devices()) or "none"
        raise UnsupportedError(
            f"no device is called {name!r}; known: {known}", code="VART_OPEN_DEVICE_FAIL"
        )
    try:
        constructor: Callable[..., Any] = found[0].load()
    except ImportError as error:
        raise UnsupportedError(
            f"device {name!r} needs {error.name or error}, which is not installed; "
            f"try: pip install opendpu[{EXTRAS.get(name, 'sim')}]",
            code="VART_OPEN_DEVICE_FAIL",
        ) from error
    return constructor
