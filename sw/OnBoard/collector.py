# SPDX-License-Identifier: Apache-2.0
"""``SummaryCollector``: writes event files with simple calls."""

import importlib.metadata
import os
import pathlib
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from tensorboard.compat.proto.event_pb2 import Event, TaggedRunMetadata
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from OnBoard.graph import CPU, DPU, Compiled, add_network, run_metadata
from OnBoard.images import encoded
from opendpu import api
from opendpu_arch import outputs
from opendpu_arch.errors import OutputError, TensorError, ToolError

FRAMEWORKS = {"torch": "PyTorch", "tensorflow": "TensorFlow"}
"""Names for people, by module."""


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
        target = api.chosen_target()
        versions = {name: sys.modules[module].__version__ for module, name in FRAMEWORKS.items()
                    if module in sys.modules}  # fmt: skip
        rows = {
            "DPU": target.name, "fingerprint": f"{target.fingerprint:#x}",
            "OpenDPU": importlib.metadata.version("opendpu"), **versions,
            "host": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        }  # fmt: skip
        self.add_text("platform", _table(("", ""), rows.items()))

    def add_text(self, tag: str, text: str, global_step: int = 0) -> None:
        """Write a text, which may be Markdown.

        Parameters
        ----------
        tag
            Its title.
        text
            The text.
        global_step
            Number of the step it belongs to.
        """
        tensor = TensorProto(
            dtype=DT_STRING, string_val=[text.encode()],
            tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
        )  # fmt: skip
        data = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
        value = Summary.Value(tag=f"{tag}/text_summary", metadata=data, tensor=tensor)
        self._summary(value, global_step)

    def user_command_result(self, command: str) -> None:
        """Run a command in the shell, and write what it prints.

        Raises
        ------
        ToolError
            The command fails.
        """
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        if done.returncode:
            raise ToolError(
                f"command {command!r} ended with code {done.returncode}: {done.stderr.strip()}"
            )
        self.add_text(command, f"```\n{done.stdout.rstrip()}\n```")

    def add_graph(self, model: Any, input_to_model: Any = None, verbose: bool = False) -> None:
        """Write a model; of a compiled one the partition, and what each part takes.

        Parameters
        ----------
        model
            Of :func:`wego_torch.compile`, what ``torch.compile`` with backend ``opendpu`` gave, or
            any module of PyTorch; of :func:`vitis_vai.create_wego_model`, or any model, function
            or graph of TensorFlow.
        input_to_model
            A tensor or a tuple of tensors that it is called with once; if not given, times are
            those of its calls so far. A module of PyTorch that is not compiled needs it.
        verbose
            Whether to print the partition.

        Raises
        ------
        TensorError
            The model has no compiled network, and cannot be traced.
        """
        graph = GraphDef()
        if _is_of_tensorflow(model):
            from OnBoard import tensorflow

            found = tensorflow.compiled_networks(graph, model, input_to_model)
        else:
            from OnBoard import pytorch

            found = pytorch.compiled_networks(graph, model, input_to_model)
            if not found:
                pytorch.write_float_module(self.folder, model, input_to_model, verbose)
                return
        for number, network in enumerate(found):
            self._network(graph, network, f"network_{number}", verbose)
        self._writer.add_event(Event(wall_time=time.time(), graph_def=graph.SerializeToString()))

    def _network(self, graph: GraphDef, network: Compiled, scope: str, verbose: bool) -> None:
        report = network.report
        parts = add_network(graph, network.graph, scope, report["on_cpu"], network.source)
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
        self.add_text(f"{scope}/partition", f"{text}\n\n{why}")
        tagged = TaggedRunMetadata(
            tag=scope, run_metadata=run_metadata(parts, seconds, devices).SerializeToString()
        )
        self._writer.add_event(Event(wall_time=time.time(), tagged_run_metadata=tagged))

    def add_image(
        self, tag: str | Sequence[str], image: Any, boxes: Any = None, *, global_step: int = 0,
        dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """Write an image, or several.

        Parameters
        ----------
        tag
            Its title; a list for several images, which may share one.
        image
            A file, or an array or tensor: pixels of 0..255, or of 0..1 where they are floats; as
            many as titles.
        boxes
            Boxes to draw, ``[N, 4]``: left, top, right, bottom in pixels; as many as images.
        global_step
            Number of the step it belongs to; images with the same title follow each other.
        dataformats
            Order of the axes of an array: ``CHW``, ``HWC`` or ``HW``.

        Raises
        ------
        TensorError
            It is no image, or there are not as many as titles.
        ToolError
            Pillow is missing.
        """
        single = isinstance(tag, str)
        titles: Sequence[Any] = [tag] if single else list(tag)
        pictures = [image] if single else list(image)
        drawn = [boxes] if single else [None] * len(titles) if boxes is None else list(boxes)
        if not len(titles) == len(pictures) == len(drawn):
            raise TensorError(
                f"there are {len(titles)} tags for {len(pictures)} images with {len(drawn)} sets "
                "of boxes, but must be as many of each"
            )
        for number, (title, picture, own) in enumerate(zip(titles, pictures, drawn, strict=True)):
            value = Summary.Value(tag=title, image=encoded(picture, dataformats, own))
            self._summary(value, global_step + titles[:number].count(title))

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

    def _summary(self, value: Summary.Value, step: int) -> None:
        event = Event(wall_time=time.time(), step=step, summary=Summary(value=[value]))
        self._writer.add_event(event)


def _table(head: tuple[str, ...], rows: Any) -> str:
    """Return a table in Markdown, which TensorBoard shows."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in dict(rows).items() if isinstance(rows, Mapping) else rows:
        lines.append("| " + " | ".join(str(cell).replace("|", "/") for cell in row) + " |")
    return "\n".join(lines)


def _is_of_tensorflow(model: Any) -> bool:
    """Return whether a model is TensorFlow's, which is there then."""
    if "tensorflow" not in sys.modules:
        return False
    torch = sys.modules.get("torch")
    return torch is None or not (
        isinstance(model, torch.nn.Module) or "torch" in type(model).__module__
    )
