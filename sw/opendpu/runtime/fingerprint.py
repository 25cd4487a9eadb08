# SPDX-License-Identifier: Apache-2.0
"""Whether a compiled program may run on a DPU: every door of the runtime asks here."""

import os

from opendpu_arch.errors import FingerprintError
from opendpu_arch.target import Target

FINGERPRINT_VARIABLE = "XLNX_ENABLE_FINGERPRINT_CHECK"


def check_fingerprint(fingerprint: int, target: Target, program: str) -> None:
    """Check that a program may run on a DPU, which may have more extensions than it needs.

    Parameters
    ----------
    fingerprint
        What the program was compiled for; 0 where it does not say.
    target
        The DPU.
    program
        What errors call the program, such as ``subgraph 'conv1'``.

    Raises
    ------
    FingerprintError
        It was compiled for another DPU; ``XLNX_ENABLE_FINGERPRINT_CHECK=0`` skips this.
    """
    if not fingerprint or os.environ.get(FINGERPRINT_VARIABLE) == "0":
        return
    lacking = target.lacks(fingerprint)
    if lacking is None:
        actual = target.fingerprint
        raise FingerprintError(
            f"CHECK fingerprint fail! model_fingerprint {fingerprint:#x} is un-matched "
            f"with actual dpu_fingerprint {actual:#x}. Please re-compile xmodel with "
            f"dpu_fingerprint {actual:#x} and try again."
        )
    if lacking:
        names = ", ".join(f"'{e.label}'" for e in sorted(lacking))
        raise FingerprintError(
            f"{program} needs the extension {names}, "
            f"which the DPU {target.name} lacks: compile it for {target.name}, "
            f"or run it on {Target.from_fingerprint(fingerprint).name}"
        )
