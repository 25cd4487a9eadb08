# SPDX-License-Identifier: Apache-2.0
"""The ``arch.json`` files that come with Vitis AI, by the paths that scripts have for them."""

import pathlib

ARCH_FILES = {"KV260": "B4096", "ZCU102": "B4096", "ZCU104": "B4096"}
"""Target by board: the DPU of AMD's board images, as in ``compiler/arch/DPUCZDX8G`` of 3.x."""


def target_of_path(path: str | pathlib.Path, kind: str) -> str | None:
    """Return the target of a path like ``…/arch/<kind>/KV260/arch.json``; None for others.

    Scripts say ``/opt/vitis_ai/compiler/arch/…``, where the file lies in AMD's containers.
    """
    named, board = _kind_and_board(path)
    return ARCH_FILES.get(board.upper()) if named == kind else None


def why_unknown(path: str | pathlib.Path, kind: str) -> str:
    """Return what is to be said of a path of Vitis AI's that has no target; nothing of others."""
    named, board = _kind_and_board(path)
    if not named.startswith("DPU"):
        return ""
    if named != kind:
        return f"; it is for a {named}, but DPUs here are {kind}s"
    return f"; without the file, boards known are {', '.join(ARCH_FILES)}, but not {board}"


def _kind_and_board(path: str | pathlib.Path) -> tuple[str, str]:
    """Return the folders around Vitis AI's files; empty for other paths."""
    *_, above, kind, board, name = ("", "", "", "", *pathlib.PurePath(path).parts)
    return (kind, board) if (above, name) == ("arch", "arch.json") else ("", "")
