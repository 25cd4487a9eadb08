# SPDX-License-Identifier: Apache-2.0
"""Writes the results of passes into a folder."""

import pathlib
from collections.abc import Collection
from types import TracebackType
from typing import Self

import xir
from opendpu.compiler.assemble import outline
from opendpu.compiler.dump.picture import picture
from opendpu.compiler.dump.text import text
from opendpu.compiler.partition import Partitioned
from opendpu.compiler.passes import EACH, PASSES
from opendpu.ir import Graph
from opendpu_arch import outputs
from opendpu_arch.errors import DPUError


class Dumper:
    """Remembers what passes made, and writes it at the end of a ``with`` block, failed or not.

    Files are called ``<number>-<pass>[.<part>].txt``, ``.svg`` and ``.xmodel``; parts are counted
    from 0 in the order of the DPU parts. A partition that is made again forgets what followed it.

    Parameters
    ----------
    folder
        Where files go; it is made if it is not there.
    passes
        Names of the passes whose results are wanted.
    """

    def __init__(self, folder: pathlib.Path, passes: Collection[str]) -> None:
        self.folder = folder
        self.passes = frozenset(passes)
        self._values: dict[str, list[object]] = {}

    def __call__(self, name: str, value: object) -> None:
        """Remember what a pass made; a graph is copied, because later passes may edit it."""
        if name == "partition":
            names = [one.name for one in PASSES]
            for later in names[names.index(name) :]:
                self._values.pop(later, None)
        if name in self.passes:
            kept = value.copy() if isinstance(value, Graph) else value
            self._values.setdefault(name, []).append(kept)

    def __enter__(self) -> Self:
        """Return the dumper."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write everything; what made the block fail is more important than what fails here."""
        try:
            self.write()
        except DPUError:
            if error is None:
                raise

    def write(self) -> list[pathlib.Path]:
        """Write the files and return their paths.

        Raises
        ------
        OutputError
            A file cannot be written; it is then as it was before.
        """
        written = []
        for number, one in enumerate(PASSES):
            for part, value in enumerate(self._values.get(one.name, ())):
                stem = f"{number:02}-{one.name}" + (f".{part}" if one.name in EACH else "")
                for suffix, data in _forms(value):
                    written.append(self._write(f"{stem}.{suffix}", data))
        return written

    def _write(self, name: str, data: bytes) -> pathlib.Path:
        path = self.folder / name
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise outputs.refusal(path, error.strerror or str(error)) from error
        outputs.write(path, data)
        return path


def _forms(value: object) -> list[tuple[str, bytes]]:
    """Return a value as the contents of files by suffix."""
    found = [("txt", text(value).encode()), ("svg", picture(value).svg().encode())]
    graph = _graph(value)
    if graph is not None:
        found.append(("xmodel", graph.to_bytes()))
    return found


def _graph(value: object) -> xir.Graph | None:
    match value:
        case xir.Graph():
            return value
        case Graph():
            return outline(value)
        case Partitioned():
            return outline(value.graph, value.partition)
        case _:
            return None
