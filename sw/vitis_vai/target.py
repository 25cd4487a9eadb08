# SPDX-License-Identifier: Apache-2.0
"""The DPU that models are compiled for."""

import dataclasses
import logging
import re

from opendpu.api import chosen_target
from opendpu_arch.target import Target

LOGGER = logging.getLogger("opendpu.vitis_vai")
_OTHER_DPU = re.compile(r"DPUC(?!ZDX8G)\w+")
"""Names of AMD's other DPUs, which its WeGO was made for."""


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


def target_for(text: str | None) -> Target:
    """Return the target that a script asks for.

    One of AMD's DPUs for data centers is none of ours: the target is the one that there is.

    Raises
    ------
    TargetError
        There is no such target.
    """
    if text is not None and _OTHER_DPU.fullmatch(text):
        found = chosen_target()
        LOGGER.warning("target %s is another DPU: compiled for %s", text, found.name)
        return found
    return chosen_target(text)
