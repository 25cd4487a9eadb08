# SPDX-License-Identifier: Apache-2.0
"""A model of ONNX, compiled and ready to run with ONNX's own names, orders of axes and types."""

import contextlib
import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from opendpu import api
from opendpu.calibration import read_calibration
from opendpu.frontend import load_model, load_onnx
from opendpu.frontend.binding import Sizes, asking
from opendpu.frontend.requantizing import Requantize, left_quantizers
from opendpu.onnxruntime import assignment
from opendpu.onnxruntime.identity import Model, content_of, digest_of
from opendpu.onnxruntime.options import ProviderOptions
from opendpu.onnxruntime.port import Port
from opendpu.onnxruntime.sizes import Dims, NotWorthItError, given_sizes, left_open, mixes_batch
from opendpu.quantize import complete, is_quantized, quantize_with_report
from opendpu.requantization import by_ranges
from opendpu.runtime.description import dpu_arch
from opendpu.runtime.fingerprint import check_fingerprint
from opendpu.runtime.program import dpu_subgraphs
from opendpu_arch import cache
from opendpu_arch import outputs as files
from opendpu_arch.errors import (
    DPUError,
    FingerprintError,
    ModelFormatError,
    TargetError,
)
from opendpu_arch.extensions import Extension
from opendpu_arch.target import Target
from xir import Graph

MODEL = "compiled.xmodel"
SIGNATURE = "signature.json"
"""Files of a cached model: the program, and what belongs to it."""

_CONVOLUTIONS = ("conv2d", "depthwise-conv2d", "transposed-conv2d", "transposed-depthwise-conv2d")


@dataclasses.dataclass(frozen=True)
class Executable:
    """A compiled model and how its ports are to be served.

    Parameters
    ----------
    graph
        The compiled graph.
    inputs, outputs
        Its ports in the order of the model's own.
    digest
        What it was made from: the model and all options that count.
    mixes_batch
        Whether the model leaves its batch open, and results for several samples are not those of
        each.
    """

    graph: Graph
    inputs: Sequence[Port]
    outputs: Sequence[Port]
    digest: str
    mixes_batch: bool = False

    @property
    def convolutions(self) -> int:
        """How many convolutions the DPU computes."""
        return sum(
            op.get_type().removesuffix("-fix") in _CONVOLUTIONS
            for subgraph in dpu_subgraphs(self.graph)
            for op in subgraph.get_ops()
        )

    def check_target(self, target: Target, label: str) -> None:
        """Raise TargetError if the runner would refuse to run it on a DPU."""
        for subgraph in dpu_subgraphs(self.graph):
            known = subgraph.has_attr("dpu_fingerprint")
            own = int(subgraph.get_attr("dpu_fingerprint")) if known else 0
            try:
                check_fingerprint(own, target, label)
            except FingerprintError:
                raise TargetError(
                    f"{label}: compiled for {dpu_arch(own)} ({own:#x}), but the session's target "
                    f"is {target.name} ({target.fingerprint:#x}); open it with its own target, or "
                    "write it anew from the model that it was made from"
                ) from None

    def tensors(self) -> list[str]:
        """Return the name of the runner's tensor for each output.

        Raises
        ------
        ModelFormatError
            The graph does not return one op for each.
        """
        names = self.graph.get_attr("return_ops") if self.graph.has_attr("return_ops") else []
        found = [op for op in map(self.graph.get_op, names) if op]
        if len(found) != len(self.outputs):
            raise ModelFormatError(f"{len(found)} return ops for {len(self.outputs)} outputs")
        return [op.get_output_tensor().name for op in found]

    def packed(self) -> bytes:
        """Return all of it in one piece: the signature, its length in front, then the file."""
        signature = json.dumps(self._signature()).encode()
        return len(signature).to_bytes(4, "little") + signature + self.graph.to_bytes()

    @classmethod
    def unpacked(cls, content: bytes, label: str) -> "Executable":
        """Return what :meth:`packed` gave.

        Raises
        ------
        ModelFormatError
            It is something else, or damaged.
        """
        size = int.from_bytes(content[:4], "little")
        try:
            graph = Graph.from_bytes(content[4 + size :])
            return cls._of(json.loads(content[4 : 4 + size]), graph)
        except (ValueError, KeyError, TypeError, ModelFormatError) as error:
            raise ModelFormatError(f"{label}: no compiled model of ours: {error}") from None

    def save(self, folder: pathlib.Path) -> None:
        """Write it into a folder. The signature has the digest of the program that it is for."""
        folder.mkdir(parents=True, exist_ok=True)
        program = self.graph.to_bytes()
        files.write(folder / MODEL, program)
        signature = {**self._signature(), "program": cache.digest(program)}
        files.write(folder / SIGNATURE, json.dumps(signature, indent=1))

    @classmethod
    def load(cls, folder: pathlib.Path, digest: str) -> "Executable | None":
        """Return what is in a folder; nothing if that is damaged, or of something else."""
        try:
            signature = json.loads((folder / SIGNATURE).read_text(encoding="utf-8"))
            program = (folder / MODEL).read_bytes()
            if signature["digest"] != digest:
                return None
            if signature["program"] != cache.digest(program):
                return None  # another process, or an interruption, has changed one of them
            return cls._of(signature, Graph.from_bytes(program))
        except (OSError, ValueError, KeyError, TypeError, ModelFormatError):
            return None

    def _signature(self) -> dict[str, Any]:
        return {
            "digest": self.digest,
            "mixes_batch": self.mixes_batch,
            "inputs": [dataclasses.asdict(port) for port in self.inputs],
            "outputs": [dataclasses.asdict(port) for port in self.outputs],
        }

    @classmethod
    def _of(cls, signature: Mapping[str, Any], graph: Graph) -> "Executable":
        ports = {
            role: [Port.from_dict(port) for port in signature[role]]
            for role in ("inputs", "outputs")
        }
        digest, mixes = str(signature["digest"]), bool(signature.get("mixes_batch", False))
        found = cls(graph, ports["inputs"], ports["outputs"], digest, mixes)
        found.tensors()
        return found


def executable(
    model: Model, options: ProviderOptions, inputs: Mapping[str, Dims] | None = None
) -> Executable:
    """Return a model compiled, from the cache if it is there.

    ``inputs`` are shapes that a session has for its inputs.

    Raises
    ------
    NotWorthItError
        The model is float and there is nothing to calibrate it with, it has open sizes, or too
        little of it is for a DPU.
    ModelFormatError, UnsupportedError, TensorError, TargetError
        See :func:`opendpu.api.compile_onnx`.
    """
    target = api.find_target(options.target)
    source = content_of(model)
    sizes = given_sizes(inputs or {})
    digest = digest_of(model, source, target, options, sizes)
    folder = options.cache and options.cache / (options.key or hashlib.md5(source).hexdigest())
    kept = Executable.load(folder, digest) if folder else None
    found, report = (kept, None) if kept else _compiled(model, target, options, digest, sizes)
    if found.convolutions < options.least_convolutions:
        raise NotWorthItError(
            f"the DPU would compute {found.convolutions} convolutions of the model, less than "
            f"XLNX_MINIMUM_NUM_OF_CONV, {options.least_convolutions}"
        )
    if folder and not kept:
        with contextlib.suppress(OSError, DPUError):  # every cache is optional
            found.save(folder)
            if report:
                assignment.write(report, folder, options.report)
    return found


def _compiled(
    model: Model,
    target: Target,
    options: ProviderOptions,
    digest: str,
    sizes: Sizes,
) -> tuple[Executable, dict[str, Any]]:
    """Return a model compiled, and what runs where."""
    mode = Requantize.chosen(wanted=options.requantize, has_samples=bool(options.calibration))
    own = Extension.SCALED in target.extensions and not options.requantize
    with asking(left_open):
        graph = (
            load_onnx(model, sizes, requantize=mode, any_scale=own)
            if isinstance(model, onnx.ModelProto)
            else load_model(pathlib.Path(model), sizes, requantize=mode, any_scale=own)
        )
    if is_quantized(graph):
        quantized = by_ranges(graph) if mode is Requantize.RANGES else complete(graph)
    elif options.calibration:
        samples = read_calibration(options.calibration, graph)
        quantized = quantize_with_report(graph, samples, target=target).graph
    elif left := left_quantizers(graph):
        raise NotWorthItError(f"operator {left[0].name!r}: {left[0].reason}")
    else:
        raise NotWorthItError(
            "the model is float: quantize it (opendpu quantize, vai_q_onnx), or give samples "
            "in the option calibration"
        )
    compiled = api.compile_graph(quantized, target=target)
    if not dpu_subgraphs(compiled.graph):
        raise NotWorthItError("the DPU computes nothing of the model")
    inputs = [Port.of(graph, node.name) for node in graph if node.kind == "data"]
    outputs = [Port.of(graph, name) for name in graph.outputs]
    made = Executable(compiled.graph, inputs, outputs, digest, mixes_batch(model))
    parts = len(dpu_subgraphs(compiled.graph))
    return made, assignment.assignment(quantized, compiled.report.on_cpu, parts)
