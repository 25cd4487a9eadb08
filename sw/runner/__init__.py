# SPDX-License-Identifier: Apache-2.0
"""Runners as programs for Vitis AI 1 make them; :mod:`vart` since.

>>> dpu = runner.Runner(subgraph, "run")   # Vitis AI 1.2
>>> dpu = runner.Runner("folder")[0]       # Vitis AI 1.0 and 1.1: a folder with a meta.json
"""

import os
from typing import Any

import vart
import xir
from runner.folder import FolderRunners

__all__ = ["Runner"]


def Runner(
    model: xir.Subgraph | str | os.PathLike[str], mode: str = "", **options: Any
) -> vart.Runner | FolderRunners:
    """Return a runner for a subgraph, or the runners for the model in a folder.

    Modes and ``options`` are those of :meth:`vart.Runner.create_runner`.

    Raises
    ------
    DPUError
        As there; and the folder holds no model that is compiled for this DPU.
    """
    if isinstance(model, str | os.PathLike):
        return FolderRunners(model, mode, **options)
    return vart.Runner.create_runner(model, mode, **options)
