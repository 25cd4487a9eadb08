# SPDX-License-Identifier: Apache-2.0
"""``SummaryCollector``: writes event files with simple calls."""

import io
import os
import pathlib
import platform
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from tensorboard.compat.proto.event_pb2 import Event, TaggedRunMetadata
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.summary.writer.event_file_writer import EventFileWriter

import wego_torch
from OnBoard.graph import CPU, DPU, add_network, add_script, run_metadata
from opendpu_arch import outputs
from opendpu_arch.errors import OutputError, TensorError, ToolError
from wego_torch.network import Network
from wego_torch.script import networks_of


class SummaryCollector:
    """Writes what it is told into an event file of TensorBoard.

    Parameters
    ----------
    log_dir
        Folder for event files; made where it is missing.
    comment
        Names the run: a folder in ``log_dir``.

    Raises
    ------
    OutputError
        The folder cannot be written.
    """

    def __init__(self, log_dir: str | os.PathLike[str] = "OnBoard_info", comment: str = "") -> None:
        self.folder = pathlib.Path(log_dir, comment) if comment else pathlib.Path(log_dir)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._writer = EventFileWriter(str(self.folder))
        except OSError as error:
            raise outputs.refusal(self.folder, error.strerror or str(error)) from error

    def add_platform_info(self) -> None:
        """Write which DPU there is, and on which host."""
        info = wego_torch.get_target_info()
        rows = {
            "DPU": info.name, "fingerprint": f"{info.fingerprint:#x}", "batch": str(info.batch),
            "WeGO": wego_torch.version(), "PyTorch": torch.__version__,
            "host": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        }  # fmt: skip
        self._text("platform", _table(("", ""), rows.items()))

    def add_graph(
        self, model: torch.nn.Module, input_to_model: Any = None, verbose: bool = False
    ) -> None:
        """Write the partition of a compiled module, and what each part takes.

        Parameters
        ----------
        model
            Of :func:`wego_torch.compile`, or what ``torch.compile`` with backend ``opendpu`` gave.
        input_to_model
            A tensor or a tuple of tensors that it is called with once; if not given, times are
            those of its calls so far.
        verbose
            Whether to print the partition.

        Raises
        ------
        TensorError
            The module has no compiled network.
        """
        if input_to_model is not None:
            given = input_to_model if isinstance(input_to_model, tuple) else (input_to_model,)
            with torch.no_grad():
                model(*given)
        graph, networks = GraphDef(), networks_of(model)
        if not networks:
            raise TensorError(
                f"{type(model).__name__} has no compiled network: give what wego_torch.compile "
                "returns, or torch.compile after its first call"
            )
        calls = add_script(graph, model) if isinstance(model, torch.jit.ScriptModule) else []
        for number, network in enumerate(networks):
            self._network(graph, network, f"network_{number}", calls[number : number + 1], verbose)
        self._writer.add_event(Event(wall_time=time.time(), graph_def=graph.SerializeToString()))

    def _network(
        self, graph: GraphDef, network: Network, scope: str, source: list[str], verbose: bool
    ) -> None:
        report = network.artefact.report
        parts = add_network(graph, network.graph, scope, report["on_cpu"], "".join(source))
        devices = {
            part["name"]: DPU if part["device"] == "DPU" else CPU for part in report["subgraphs"]
        }
        seconds: dict[str, float] = {}
        for step, job in enumerate(network.statistics):
            for name, figures in job.items():
                seconds[name] = figures["wall_seconds"]
                self._scalar(f"{scope}/seconds/{name}", figures["wall_seconds"], step)
                if figures["cycles"]:
                    self._scalar(f"{scope}/cycles/{name}", figures["cycles"], step)
        for step, (count, took) in enumerate(network.seconds):
            self._scalar(f"{scope}/samples_per_second", count / took if took else 0.0, step)
        text = _table(
            ("part", "device", "operators", "MACs", "cycles expected", "seconds"),
            ((p["name"], p["device"], str(len(p["ops"])), f"{p['macs']:,}", f"{p['cycles']:,}",
              f"{seconds.get(p['name'], 0):.6f}") for p in report["subgraphs"]),
        )  # fmt: skip
        why = _table(("operator on the CPU", "why"), report["on_cpu"].items())
        if verbose:
            print(text)  # noqa: T201 - asked for
        self._text(f"{scope}/partition", f"{text}\n\n{why}")
        tagged = TaggedRunMetadata(
            tag=scope, run_metadata=run_metadata(parts, seconds, devices).SerializeToString()
        )
        self._writer.add_event(Event(wall_time=time.time(), tagged_run_metadata=tagged))

    def add_image(
        self, tag: str, image: Any, global_step: int = 0, dataformats: str = "CHW"
    ) -> None:
        """Write an image.

        Parameters
        ----------
        tag
            Its title.
        image
            A file, or an array or tensor: pixels of 0..255, or of 0..1 where they are floats.
        global_step
            Number of the step it belongs to.
        dataformats
            Order of the axes of an array: ``CHW``, ``HWC`` or ``HW``.

        Raises
        ------
        TensorError
            It is no image.
        ToolError
            Pillow is missing.
        """
        try:
            from PIL import Image
        except ModuleNotFoundError:
            raise ToolError("images need Pillow: pip install 'opendpu[png]'") from None
        if isinstance(image, str | os.PathLike):
            try:
                found = Image.open(image).convert("RGB")
            except OSError as error:
                raise TensorError(f"{os.fspath(image)} is no image: {error}") from error
        else:
            found = Image.fromarray(_pixels(image, dataformats))
        written = io.BytesIO()
        found.save(written, "PNG")
        encoded = Summary.Image(
            height=found.height, width=found.width, colorspace=3,
            encoded_image_string=written.getvalue(),
        )  # fmt: skip
        self._summary(Summary.Value(tag=tag, image=encoded), global_step)

    def close(self) -> None:
        """Finish the file; OutputError if it cannot be written."""
        try:
            self._writer.close()
        except OSError as error:
            raise OutputError(f"{self.folder}: {error.strerror or error}") from error

    def __enter__(self) -> Self:
        """Return the collector."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Finish the file."""
        self.close()

    def _scalar(self, tag: str, value: float, step: int) -> None:
        self._summary(Summary.Value(tag=tag, simple_value=value), step)

    def _text(self, tag: str, text: str) -> None:
        tensor = TensorProto(
            dtype=DT_STRING, string_val=[text.encode()],
            tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
        )  # fmt: skip
        data = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
        self._summary(Summary.Value(tag=f"{tag}/text_summary", metadata=data, tensor=tensor), 0)

    def _summary(self, value: Summary.Value, step: int) -> None:
        event = Event(wall_time=time.time(), step=step, summary=Summary(value=[value]))
        self._writer.add_event(event)


def _table(head: tuple[str, ...], rows: Any) -> str:
    """Return a table in Markdown, which TensorBoard shows."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in dict(rows).items() if isinstance(rows, Mapping) else rows:
        lines.append("| " + " | ".join(str(cell).replace("|", "/") for cell in row) + " |")
    return "\n".join(lines)


def _pixels(image: Any, order: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    array = image.detach().cpu().numpy() if isinstance(image, torch.Tensor) else np.asarray(image)
    if order not in ("CHW", "HWC", "HW") or array.ndim != len(order):
        raise TensorError(
            f"an image with {array.ndim} axes has no dataformats {order!r}; known: CHW, HWC, HW"
        )
    if order == "CHW":
        array = array.transpose(1, 2, 0)
    if array.dtype.kind == "f":
        array = np.rint(np.clip(array, 0, 1) * 255)
    array = np.clip(array, 0, 255).astype(np.uint8)
    if array.ndim == 2 or array.shape[2] == 1:
        array = np.repeat(array.reshape(*array.shape[:2], 1), 3, axis=2)
    return array
