# SPDX-License-Identifier: Apache-2.0
"""The DPU that models are compiled for."""

import dataclasses

from opendpu.api import chosen_target


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


def get_target_info() -> DeviceInfo:
    """Return what the DPU is."""
    target = chosen_target()
    return DeviceInfo(1, target.name, target.fingerprint)
