# SPDX-License-Identifier: Apache-2.0
"""The class that DPU-PYNQ has for the DPU in a bitstream."""

import os
import pathlib
from typing import Any

import vart
import xir
from opendpu.runtime.program import dpu_subgraphs
from opendpu_arch.errors import ModelFormatError, UnsupportedError
from runner.folder import BatchRunner


class DpuOverlay:
    """A DPU that runs one model at a time; the environment chooses the device (``OPENDPU_DEVICE``).

    Parameters
    ----------
    bitfile_name
        The bitstream: only its folder is used, to find models. It is not read and need not exist.
    dtbo, download, ignore_version, device
        As of PYNQ's overlays; without a meaning here.

    Attributes
    ----------
    graph
        The model, a ``xir.Graph``; none before :meth:`load_model`.
    runner
        A ``vart.Runner`` for it; none before :meth:`load_model`.
    ip_dict
        The other parts of the bitstream, by name: none.
    """

    def __init__(
        self,
        bitfile_name: str | os.PathLike[str],
        dtbo: Any = None,
        download: bool = True,
        ignore_version: bool = False,
        device: Any = None,
    ) -> None:
        self.bitfile_name = os.fspath(bitfile_name)
        self.overlay_dirname, self.overlay_basename = os.path.split(self.bitfile_name)
        self.graph: xir.Graph | None = None
        self.runner: vart.Runner | None = None
        self.ip_dict: dict[str, Any] = {}
        self._runners: type[vart.Runner] = vart.Runner

    def download(self) -> None:
        """Do nothing: there is no hardware to configure."""

    def is_loaded(self) -> bool:
        """Tell whether the hardware has the bitstream: always."""
        return True

    def free(self) -> None:
        """Let go of the model and its runner, as PYNQ of the hardware."""
        self.graph = self.runner = None

    def set_runtime(self, runtime: str) -> None:
        """Choose the runtime, which is ``vart``; UnsupportedError for another one.

        Programs that do so are for DPU-PYNQ 1.2: the next runner is as those of Vitis AI 1.1.
        """
        if runtime != "vart":
            raise UnsupportedError(f"runtime is {runtime!r}, but must be 'vart'")
        self._runners = BatchRunner

    def load_model(self, model: str | os.PathLike[str]) -> None:
        """Open a compiled model and make its runner, in place of those before.

        Parameters
        ----------
        model
            An ``.xmodel``: its path, or its name in the folder of the bitstream.

        Raises
        ------
        ModelFormatError
            There is no such file, it is no compiled model, or it has not one subgraph for the DPU.
        """
        path = pathlib.Path(model)
        if not path.is_file() and (beside := pathlib.Path(self.overlay_dirname, model)).is_file():
            path = beside
        graph = xir.Graph.deserialize(path)
        subgraphs = dpu_subgraphs(graph)
        if len(subgraphs) != 1:
            raise ModelFormatError(
                f"{path}: {len(subgraphs)} subgraphs for the DPU, but an overlay runs one; "
                "vitis_ai_library.GraphRunner runs whole graphs"
            )
        self.graph, self.runner = graph, self._runners.create_runner(subgraphs[0], "run")
