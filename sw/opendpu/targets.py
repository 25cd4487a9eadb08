# SPDX-License-Identifier: Apache-2.0
"""Which target a user means."""

import os
import pathlib

from opendpu.runtime.devices import DEFAULT_TARGET, TARGET_VARIABLE
from opendpu_arch.target import Target


def find_target(text: str) -> Target:
    """Return the target that ``text`` says: a name, a fingerprint, or an ``arch.json`` file.

    Raises
    ------
    TargetError
        It is none of these.
    """
    if text.endswith(".json") or pathlib.Path(text).is_file():
        return Target.from_arch_json(text)
    return Target.from_name(text)


def chosen_target(text: str | None = None) -> Target:
    """Return the target that is asked for, or ``XLNX_TARGET_NAME``'s, or that of most boards.

    Raises
    ------
    TargetError
        There is no such target.
    """
    return find_target(text or os.environ.get(TARGET_VARIABLE) or DEFAULT_TARGET)
