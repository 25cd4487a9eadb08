# SPDX-License-Identifier: Apache-2.0
"""What the doors make of one network: the program, and its results."""

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from small_network import FILES, Weights, as_onnx, torch_module

import opendpu.onnxruntime
from opendpu import api
from opendpu.frontend import load_model
from opendpu.onnxruntime import PROVIDER
from opendpu.quantize import quantize_with_report
from opendpu.quantize_model import quantize_onnx
from opendpu.runtime.program import dpu_subgraphs

RUN = 8
"""Images whose results are compared, of those that calibrate."""


@dataclasses.dataclass(frozen=True)
class Made:
    """A compiled network.

    Parameters
    ----------
    graph
        The compiled graph.
    results
        ``[RUN, 5]``.
    """

    graph: Any
    results: np.ndarray

    @property
    def code(self) -> bytes:
        """The machine code of all parts on the DPU."""
        return b"".join(part.get_attr("mc_code") for part in dpu_subgraphs(self.graph))

    @property
    def digest(self) -> str:
        """Of the machine code."""
        return hashlib.sha256(self.code).hexdigest()[:12]


def through_file(path: Path, images: np.ndarray, target: str) -> Made:
    """Return what a file of a framework gives, quantized and compiled."""
    graph = load_model(path)
    (head,) = [node for node in graph if node.kind == "data"]
    assert head.shape == (1, *images.shape[1:])
    quantized = quantize_with_report(graph, {head.name: images}).graph
    found = api.compile_graph(quantized, target=target)
    assert all(part.device != "CPU" for part in found.report.subgraphs)
    with api.create_runner(found.graph, device="ref") as runner:
        outputs, _ = api.run_batch(runner, {head.name: images[:RUN]}, floats=True)
    (result,) = outputs.values()
    return Made(found.graph, result.reshape(RUN, -1))


def through_torch_compile(folder: Path, own: Weights, images: np.ndarray, target: str) -> Made:
    """Return what ``torch.compile`` gives of the float module."""
    module = torch_module(own)
    import torch

    torch._dynamo.reset()
    data = _tensors(images)
    options = {"calibration": data, "target": target, "device": "ref"}
    compiled = torch.compile(module, backend="opendpu", options=options)
    return _watched(lambda: compiled(data[:RUN]))


def through_wego_torch(folder: Path, own: Weights, images: np.ndarray, target: str) -> Made:
    """Return what ``wego_torch`` gives, which quantizes the module."""
    module = torch_module(own)
    import wego_torch

    data = _tensors(images)
    quantized = wego_torch.quantize(
        module, [list(data.shape)], [data], lambda model, batch, *_: model(batch),
        output_dir=folder / "quantize_result",
    )  # fmt: skip
    compiled = wego_torch.compile(quantized, wego_torch.CompileOptions(target=target, device="ref"))
    return _watched(lambda: compiled(data[:RUN]))


def _tensors(images: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))


def _watched(call: Callable[[], Any]) -> Made:
    """Return the one program that a call of PyTorch's runs, and its results."""
    import torch

    from wego_torch.network import Network

    networks: list[Network] = []
    run = Network.run

    def watched(network: Network, inputs: Any) -> Any:
        networks.append(network)
        return run(network, inputs)

    Network.run = watched  # type: ignore[method-assign]
    try:
        with torch.no_grad():
            results = call().numpy()
    finally:
        Network.run = run  # type: ignore[method-assign]
    (network,) = networks
    return Made(network.graph, results)


def through_onnxruntime(folder: Path, own: Weights, images: np.ndarray, target: str) -> Made:
    """Return what a stock onnxruntime gives with our provider, of the quantized file."""
    from opendpu.onnxruntime.registration import RegisteredSession

    before = onnxruntime.InferenceSession
    opendpu.onnxruntime.register()
    onnxruntime.InferenceSession = before
    return _session(RegisteredSession, folder, own, images, target)


def through_our_session(folder: Path, own: Weights, images: np.ndarray, target: str) -> Made:
    """Return what the session without onnxruntime's library gives."""
    kind = opendpu.onnxruntime.InferenceSession
    return _session(kind, folder, own, images, target)


def _session(kind: Any, folder: Path, own: Weights, images: np.ndarray, target: str) -> Made:
    from opendpu.onnxruntime.executable import MODEL
    from xir import Graph

    data = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    path = folder / "quantized.onnx"
    quantize_onnx(as_onnx(folder, own), calibration={"x": data}, output=path)
    options = {"target": target, "device": "ref", "cacheDir": str(folder), "cacheKey": "kept"}
    session = kind(str(path), providers=[PROVIDER], provider_options=[options])
    assert session.get_providers()[0] == PROVIDER
    rows = [session.run(None, {"x": image[None]})[0] for image in data[:RUN]]
    graph = Graph.from_bytes((folder / "kept" / MODEL).read_bytes())
    return Made(graph, np.concatenate(rows))


LIVE: dict[str, Callable[[Path, Weights, np.ndarray, str], Made]] = {
    "torch.compile": through_torch_compile, "wego_torch": through_wego_torch,
    "ONNX Runtime": through_onnxruntime, "opendpu.onnxruntime": through_our_session,
}  # fmt: skip
"""Doors that are programs of a framework, by name."""


def through(door: str, folder: Path, own: Weights, images: np.ndarray, target: str) -> Made:
    """Return what a door makes of the network: the name of one in ``FILES`` or ``LIVE``."""
    if door in FILES:
        return through_file(FILES[door](folder, own), images, target)
    return LIVE[door](folder, own, images, target)
