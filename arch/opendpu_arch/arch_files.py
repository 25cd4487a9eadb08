# SPDX-License-Identifier: Apache-2.0
"""The ``arch.json`` files that come with Vitis AI, by the paths that scripts have for them."""

import pathlib

ARCH_FILES = {"KV260": "B4096", "ZCU102": "B4096", "ZCU104": "B4096"}
"""Target by board: the DPU of AMD's board images, as in ``compiler/arch/DPUCZDX8G`` of 3.x."""


def target_of_path(path: str | pathlib.Path, kind: str) -> str | None:
    """Return the target of a path like ``…/arch/<kind>/KV260/arch.json``; None for others.

    Scripts say ``/opt/vitis_ai/compiler/arch/…``, where the file lies in AMD's containers.
    """
    *_, above, folder, board, name = ("", "", "", *pathlib.PurePath(path).parts)
    if (above, folder, name) != ("arch", kind, "arch.json"):
        return None
    return ARCH_FILES.get(board.upper())
