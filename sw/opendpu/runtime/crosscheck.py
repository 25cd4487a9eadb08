# SPDX-License-Identifier: Apache-2.0
"""Dumps of tensors and their comparison with golden files, as the guide's "DPU Debug with VART".

Environment variables ask for them, when a runner is made; the names are VART's.
"""

import dataclasses
import hashlib
import os
import pathlib
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from opendpu.integer import fixed_graph
from opendpu.ops.session import Session
from opendpu.runtime.arrays import Array
from opendpu.runtime.device import JobStatistics, Segment
from opendpu.runtime.program import Port, Program
from opendpu_arch import outputs
from opendpu_arch.errors import OutputError, TensorError
from xir import Subgraph, Tensor

FOLDER = "dump"
_CONSTANTS = ("const", "const-fix")
_WRITING = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the environment asks for."""

    dump: bool = False
    """``XLNX_ENABLE_DUMP``: write tensors below ``dump``."""
    layers: bool = False
    """``XLNX_ENABLE_DEBUG_MODE``: layer by layer, instead of what is in memory at the end."""
    golden: pathlib.Path | None = None
    """``XLNX_GOLDEN_DIR``: compare tensors with the files there."""
    upload: bool = False
    """``XLNX_ENABLE_UPLOAD``: take inputs from the golden files."""
    clear: bool = False
    """``XLNX_ENABLE_CLEAR``: fill tensors in memory with a pattern before the program runs."""
    counters: bool = False
    """``XLNX_SHOW_DPU_COUNTER``: print workload and cycles of every job."""

    @classmethod
    def of_environment(cls) -> "Settings":
        """Return what the variables say."""
        golden = os.environ.get("XLNX_GOLDEN_DIR")
        return cls(
            dump=_is_on("XLNX_ENABLE_DUMP"),
            layers=_is_on("XLNX_ENABLE_DEBUG_MODE"),
            golden=pathlib.Path(golden) if golden else None,
            upload=_is_on("XLNX_ENABLE_UPLOAD"),
            clear=_is_on("XLNX_ENABLE_CLEAR"),
            counters=_is_on("XLNX_SHOW_DPU_COUNTER"),
        )

    @property
    def touch_memory(self) -> bool:
        """Whether a device must move all memory, or jobs do more than run."""
        return self.dump or self.clear or self.golden is not None


def _is_on(variable: str) -> bool:
    return os.environ.get(variable, "0") not in ("", "0")


def layer_name(name: str) -> str:
    """Return a tensor's name as VART's files have it: no parts in parentheses, ``_`` for signs."""
    previous = None
    while name != previous:
        previous, name = name, re.sub(r"\([^()]*\)", "", name)
    return re.sub(r"[^0-9A-Za-z_]", "_", name)


class Crosscheck:
    """Dumps and compares the tensors of a program's jobs.

    Inputs and outputs of the program come from memory, so does with ``layers`` off every tensor
    that has a place there, with what it holds at the end. With ``layers`` on, the tensors in
    between are computed from the ops of the file, layer after layer, also those that never leave
    the chip; that the program gives the same results is checked.
    """

    def __init__(self, settings: Settings, subgraph: Subgraph, program: Program) -> None:
        self._settings = settings
        self._program = program
        self._subgraph = subgraph
        self._session = self._all_layers() if settings.layers else None

    def before(self, segments: Mapping[int, Segment]) -> None:
        """Dump and compare inputs, or take them from golden files; clear what is to be computed."""
        program = self._program
        if self._settings.clear:
            for port in (*self._internal(), *program.outputs):
                view = port.view(segments[port.reg_id])
                pattern = np.arange(view.size, dtype=np.uint8)
                view[...] = pattern.view(np.int8).astype(view.dtype).reshape(view.shape)
        for port in program.inputs:
            if self._settings.upload and self._settings.golden:
                self._upload(port, segments)
            values = np.ascontiguousarray(port.view(segments[port.reg_id]))
            self._take("input", self._subgraph.get_name(), (port.name, *port.aliases), values)

    def after(self, segments: Mapping[int, Segment], statistics: JobStatistics) -> None:
        """Dump and compare what the program has computed."""
        if self._settings.counters:
            self._count(statistics)
        name = self._subgraph.get_name()
        results = {
            port.name: np.ascontiguousarray(port.view(segments[port.reg_id]))
            for port in self._program.outputs
        }
        if self._session is not None:
            self._after_layers(self._session, segments, results)
        else:
            for port in self._internal():
                values = np.ascontiguousarray(port.view(segments[port.reg_id]))
                self._take("internal", name, (port.name,), values)
        for port in self._program.outputs:
            self._take("output", name, (port.name, *port.aliases), results[port.name])

    def _after_layers(
        self, session: Session, segments: Mapping[int, Segment], results: Mapping[str, Array]
    ) -> None:
        given = {
            port.inner: np.ascontiguousarray(port.view(segments[port.reg_id]))
            for port in self._program.inputs
        }
        values = {**given, **session.run(given)}
        for port in self._program.outputs:
            if not np.array_equal(values[port.name].reshape(-1), results[port.name].reshape(-1)):
                _log(f"layer_name {layer_name(port.name)} the program gives other results than ops")
        final = {port.name for port in self._program.outputs}
        for layer in _layers(self._subgraph):
            for kind, tensors in _tensors_of(layer):
                for tensor in tensors:
                    if tensor.name in values and tensor.name not in final:
                        self._take(kind, layer.get_name(), (tensor.name,), values[tensor.name])

    def _all_layers(self) -> Session:
        graph = fixed_graph(self._subgraph, self._program.constants)
        names = [op.get_output_tensor().name for op in self._subgraph.toposort()]
        wanted = [n for n in names if graph[n].kind not in (*_CONSTANTS, "data-fix")]
        graph.outputs = wanted
        return Session(graph, keep_memory=False)

    def _internal(self) -> Iterator[Port]:
        """Return where tensors lie in memory that are neither inputs nor outputs nor constants."""
        ends = {port.inner for port in (*self._program.inputs, *self._program.outputs)}
        for op in self._subgraph.toposort():
            tensor = op.get_output_tensor()
            if op.get_type() in _CONSTANTS or tensor.name in ends:
                continue
            if not tensor.has_attr("location") or tensor.get_attr("location") != 1:
                continue
            port = self._program.place_of(tensor)
            if port is not None:
                yield port

    def _upload(self, port: Port, segments: Mapping[int, Segment]) -> None:
        path = self._golden_file((port.name, *port.aliases))
        shown = f"layer_name {layer_name(port.name)}"
        if path is None:
            _log(f"XLNX_GOLDEN_DIR: upload data fail ! golden file is not exist : {shown}")
            return
        content = path.read_bytes()
        view = port.view(segments[port.reg_id])
        if len(content) != view.nbytes:
            raise TensorError(
                f"{path} has {len(content)} bytes, but input {port.name!r} has {view.nbytes}",
                code="VART_SIZE_MISMATCH",
            )
        view[...] = np.frombuffer(content, view.dtype).reshape(view.shape)
        _log(f"XLNX_GOLDEN_DIR: upload data success ! {shown}")

    def _take(self, kind: str, subgraph: str, names: Sequence[str], values: Array) -> None:
        """Dump one tensor, and compare it with its golden file."""
        content = np.ascontiguousarray(values).tobytes()
        if self._settings.dump:
            self._dump(kind, subgraph, names[0], content)
        if self._settings.golden is not None:
            self._compare(names, content)

    def _dump(self, kind: str, subgraph: str, name: str, content: bytes) -> None:
        folder = pathlib.Path(FOLDER) / layer_name(subgraph) / kind
        path = folder / f"0.{layer_name(name)}.bin"
        with _WRITING:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise OutputError(
                    f"{folder}: cannot be made: {error.strerror}",
                    code="VART_CONTROLLER_DUMP_FOLDER_CREATE_ERROR",
                ) from error
            outputs.write(path, content)
        _log(f"dump to {path} batch_idx 0 tensor_size {len(content)}")

    def _compare(self, names: Sequence[str], content: bytes) -> None:
        shown = f"layer_name {layer_name(names[0])}"
        found = hashlib.md5(content, usedforsecurity=False).hexdigest()
        path = self._golden_file(names)
        if path is None:
            _log(f"XLNX_GOLDEN_DIR: compare data fail ! golden file is not exist : {shown} {found}")
            return
        wanted = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        if found == wanted:
            _log(f"XLNX_GOLDEN_DIR: compare data success !{shown} batch_idx 0 dump_md5 {found}")
            return
        _log(
            f"XLNX_GOLDEN_DIR: compare data fail ! {shown} batch_idx 0 dump tensor data : {found} "
            f"golden file : {path} {wanted}"
        )

    def _golden_file(self, names: Sequence[str]) -> pathlib.Path | None:
        assert self._settings.golden is not None
        files = [file for name in names for file in _golden_names(layer_name(name))]
        paths = (self._settings.golden / file for file in files)
        return next((path for path in paths if path.is_file()), None)

    def _count(self, statistics: JobStatistics) -> None:
        _log(f"subgraph name : {layer_name(self._subgraph.get_name())}")
        figures = [
            f"{name} {self._subgraph.get_attr(name)}"
            for name in ("workload", "workload_on_arch")
            if self._subgraph.has_attr(name)
        ]
        _log(" ".join([*figures, f"cycles {statistics.cycles}"]))


def crosscheck_for(subgraph: Subgraph, program: Program) -> Crosscheck | None:
    """Return what the environment asks for; nothing if it asks for nothing.

    Raises
    ------
    ModelFormatError
        The layers are to be computed one by one, but the file lacks values of constants.
    """
    settings = Settings.of_environment()
    if not settings.touch_memory and not settings.counters:
        return None
    return Crosscheck(settings, subgraph, program)


def _golden_names(layer: str) -> tuple[str, ...]:
    """Return how files of a layer are called: as VART has it, and as quantizers dump them.

    At the borders of a DPU subgraph, compilers add their own ends to names.
    """
    inner = re.sub(r"_(upload|download)_\d+$", "", layer)
    return f"{layer}.bin", f"{inner}.bin", f"quant_{inner.removesuffix('_fix')}.bin"


def _layers(subgraph: Subgraph) -> list[Subgraph]:
    return [subgraph] if subgraph.is_leaf else subgraph.toposort_child_subgraph()


def _tensors_of(layer: Subgraph) -> list[tuple[str, list[Tensor]]]:
    """Return the tensors of a layer by the folder that they go to."""
    results = layer.get_sorted_output_tensors()
    names = {tensor.name for tensor in results}
    inside = [op.get_output_tensor() for op in layer.toposort()]
    between = [tensor for tensor in inside if tensor.name not in names]
    return [("input", layer.get_sorted_input_tensors()), ("internal", between), ("output", results)]


def _log(text: str) -> None:
    sys.stderr.write(f"{text}\n")
