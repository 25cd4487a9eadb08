# SPDX-License-Identifier: Apache-2.0
"""Finding devices: software knows them by entry point, never by import."""

import importlib.metadata
import os
from collections.abc import Callable
from typing import Any

from opendpu.runtime.device import Device
from opendpu_arch.errors import DPUError, UnsupportedError
from opendpu_arch.target import Target

GROUP = "opendpu.device"
DEVICE_VARIABLE = "OPENDPU_DEVICE"
MEMORY_VARIABLE = "OPENDPU_MEMORY"
DEFAULT_DEVICE = "iss"
DEFAULT_MEMORY = "kv260"
EXTRAS = {"litex": "boards"}
"""Extra of the package that a device needs, where it is not ``sim``."""
DEFAULT_TARGET = "B4096"
"""DPU where nothing says which."""


def known_devices() -> list[str]:
    """Return the names of the installed devices."""
    return sorted({entry.name for entry in importlib.metadata.entry_points(group=GROUP)})


def open_device(
    name: str | None = None,
    target: Target | str = DEFAULT_TARGET,
    memory: str | None = None,
    **options: Any,
) -> Device:
    """Return a new device.

    ``name`` and ``memory`` default to the environment's ``OPENDPU_DEVICE`` and
    ``OPENDPU_MEMORY``, then to ``iss`` and ``kv260``; the device gets ``options`` as keywords.

    Raises
    ------
    UnsupportedError
        No device of this name is installed.
    TargetError
        ``target`` names no target.
    """
    name = _chosen(name)
    memory = memory or os.environ.get(MEMORY_VARIABLE) or DEFAULT_MEMORY
    constructor = _constructor(name)
    chosen = Target.from_name(target) if isinstance(target, str) else target
    device = constructor(chosen, memory=memory, **options)
    if not isinstance(device, Device):
        raise DPUError(f"device {name!r} is a {type(device).__name__}, which is no Device")
    return device


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
