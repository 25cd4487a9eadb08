# SPDX-License-Identifier: Apache-2.0
"""Which DPU programs are compiled for, and which device runs them."""

import dataclasses
import importlib.metadata
import os

from opendpu.api import chosen_target
from opendpu.runtime.devices import CORES_VARIABLE, DEVICE_VARIABLE, check_device
from opendpu.runtime.pool import cores_of_list

DEFAULT_DEVICE = "ref"
"""The device where nothing says which: the fastest."""


@dataclasses.dataclass(frozen=True)
class TargetInfo:
    """The DPU that there is.

    Parameters
    ----------
    name, fingerprint
        Its target.
    batch
        How many samples it is best given at a time: its cores, or those of the host.
    is_fingerprint_driven
        Whether programs are bound to the fingerprint; always.
    """

    name: str
    fingerprint: int
    batch: int
    is_fingerprint_driven: bool = True

    def __str__(self) -> str:
        """Return it as text, the fingerprint in hexadecimal."""
        return f"name: {self.name}, batch: {self.batch}, fingerprint: {self.fingerprint:#x}"


def chosen_device(name: str | None = None) -> str:
    """Return the device that is asked for, or the environment's, or ``ref``.

    Raises
    ------
    UnsupportedError, ToolError
        There is no such device, or a program that it needs is missing.
    """
    found = name or os.environ.get(DEVICE_VARIABLE) or DEFAULT_DEVICE
    check_device(found)
    return found


def get_target_info() -> TargetInfo:
    """Return the DPU that modules are compiled for."""
    target = chosen_target()
    listed = os.environ.get(CORES_VARIABLE)
    batch = cores_of_list(listed, CORES_VARIABLE) if listed else os.cpu_count() or 1
    return TargetInfo(target.name, target.fingerprint, batch)


def version() -> str:
    """Return the version as text."""
    import wego_torch

    own = importlib.metadata.version("opendpu")
    return f"WeGO-Torch {wego_torch.__version__} (OpenDPU {own})"
