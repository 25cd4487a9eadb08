# SPDX-License-Identifier: Apache-2.0
"""The DPU that models are compiled for."""

import dataclasses
import os

from opendpu import api
from opendpu.runtime.devices import DEFAULT_TARGET
from opendpu_arch.target import Target

VARIABLE = "XLNX_TARGET_NAME"
"""Environment variable that names another DPU, as for the guide's ONNX Runtime."""


@dataclasses.dataclass(frozen=True)
class DeviceInfo:
    """What the guide's table 47 says of a DPU.

    Parameters
    ----------
    batch
        Samples it takes at a time.
    target
        Its name.
    fingerprint
        Its fingerprint.
    """

    batch: int
    target: str
    fingerprint: int


def chosen_target() -> Target:
    """Return the DPU that ``XLNX_TARGET_NAME`` names, by default B4096.

    Raises
    ------
    TargetError
        There is none of that name.
    """
    return api.find_target(os.environ.get(VARIABLE) or DEFAULT_TARGET)


def get_target_info() -> DeviceInfo:
    """Return what the DPU is."""
    target = chosen_target()
    return DeviceInfo(1, target.name, target.fingerprint)
