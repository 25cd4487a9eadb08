# SPDX-License-Identifier: Apache-2.0
"""Whole networks through every door: ``torch.compile``, ONNX Runtime, ours; prints JSON.

Each network is a PyTorch module with random weights (``modules``), in its full size. Through
``torch.compile`` it goes as it is; for ONNX Runtime it is exported and quantized once. What comes
out of a door is compared with runners called by hand on the same images, bit for bit: on the
door's own device, and on another one (``--witness``).

    python scripts/bench/bench_doors.py resnet50 unet --images 2
"""

import argparse
import json
import math
import pathlib
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import onnxruntime
import torch
from modules import MODULES, module_of

import opendpu.onnxruntime
from opendpu import api
from opendpu.frontend import load_model
from opendpu.ir import Array
from opendpu.quantize_model import quantize_onnx
from wego_torch.artefact import Artefact
from wego_torch.network import Network

Results = list[Array]


def export(module: torch.nn.Module, image: torch.Tensor, path: pathlib.Path) -> None:
    """Write a module as ONNX; one with control flow by way of TorchScript."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            program = torch.export.export(module, (image,))
        except Exception:  # data-dependent control flow has no one class of errors
            script = torch.jit.script(module)
            torch.onnx.export(
                script, (image,), str(path), dynamo=False, input_names=["image"],
                output_names=["result"], opset_version=17,
            )  # fmt: skip
            return
        made = torch.onnx.export(
            program, dynamo=True, input_names=["image"], output_names=["result"], verbose=False,
            optimize=False,  # it would fold normalizations, and round weights as we do not
        )  # fmt: skip
        assert made is not None
        made.save(str(path))


def through_onnxruntime(
    path: pathlib.Path, images: Array, folder: pathlib.Path, target: str, device: str, witness: str
) -> dict[str, Any]:
    """Return how a quantized file fares in both sessions, next to runners called by hand."""
    compiled = folder / "by_hand.xmodel"
    report = api.compile_onnx(path, target=target, output=compiled)
    wanted = {one: _by_hand(path, compiled, images, one) for one in (device, witness)}
    options = {"target": target, "device": device, "cacheDir": str(folder), "cacheKey": "k"}
    opendpu.onnxruntime.register()
    sessions: dict[str, Callable[[], Any]] = {
        "onnxruntime": lambda: onnxruntime.InferenceSession(
            str(path), providers=["VitisAIExecutionProvider"], provider_options=[options]
        ),
        "opendpu.onnxruntime": lambda: opendpu.onnxruntime.InferenceSession(
            str(path), provider_options=[options]
        ),
    }
    found: dict[str, Any] = {"parts": [part.device for part in report.subgraphs]}
    for name, make in sessions.items():
        start = time.perf_counter()
        session = make()
        session.run(None, {"image": images[:1]})
        opened = time.perf_counter()
        results = [session.run(None, {"image": image[None]}) for image in images]
        end = time.perf_counter()
        joined = [np.concatenate(column) for column in zip(*results, strict=True)]
        found[name] = {
            "providers": session.get_providers(),
            "seconds_to_first_result": round(opened - start, 2),
            "seconds_an_image": round((end - opened) / len(images), 3),
            **{f"equal_to_{one}": _equal(joined, wanted[one]) for one in wanted},
        }
    found["results"] = wanted[device]
    return found


def _by_hand(model: pathlib.Path, compiled: pathlib.Path, images: Array, device: str) -> Results:
    """Return what a runner gives for images as the model in ONNX has them, and as it gives them."""
    graph = load_model(model)
    orders = graph.attrs.get("onnx_order", {})
    (name,) = (node.name for node in graph if node.kind == "data")
    feeds = {name: np.ascontiguousarray(_moved(images, orders.get(name)))}
    with api.create_runner(compiled, device=device) as runner:
        rows = [
            api.run_batch(runner, {name: feeds[name][i : i + 1]}, floats=True)[0]
            for i in range(len(images))
        ]
    (output,) = graph.outputs  # the file calls the tensor otherwise where the CPU makes it
    found = []
    for column in zip(*(row.values() for row in rows), strict=True):
        order = orders.get(output)
        joined = np.concatenate(column)
        found.append(_moved(joined, None if order is None else np.argsort(order)))
    return found


def _moved(array: Array, order: Any) -> Array:
    return array if order is None else array.transpose(order)


def _equal(found: Results, wanted: Results) -> bool:
    return len(found) == len(wanted) and all(
        one.shape == other.shape and np.array_equal(one, other)
        for one, other in zip(found, wanted, strict=True)
    )


class Recorder:
    """Networks of WeGO with what they were given and gave, while it is entered."""

    def __init__(self) -> None:
        self.calls: dict[Network, list[tuple[list[torch.Tensor], list[torch.Tensor]]]] = {}

    def __enter__(self) -> "Recorder":
        self._run = run = Network.run

        def recorded(network: Network, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
            found = run(network, inputs)
            self.calls.setdefault(network, []).append((list(inputs), found))
            return found

        Network.run = recorded  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *error: object) -> None:
        Network.run = self._run  # type: ignore[method-assign]


def through_dynamo(
    module: torch.nn.Module, samples: torch.Tensor, images: torch.Tensor, target: str,
    device: str, witness: str,
) -> dict[str, Any]:  # fmt: skip
    """Return how a float module fares through ``torch.compile``; every part is compared."""
    torch._dynamo.reset()
    calibration: Any = samples if len(samples) == 1 else [sample[None] for sample in samples]
    options = {"calibration": calibration, "target": target, "device": device}
    compiled = torch.compile(module, backend="opendpu", options=options)
    with torch.no_grad():
        start = time.perf_counter()
        compiled(images[:1])
        ready = time.perf_counter()
        with Recorder() as recorder:
            results = torch.cat([compiled(image[None]) for image in images])
        end = time.perf_counter()
        exact = torch.cat([module(image[None]) for image in images])
    equal = {
        one: all(_same(network, calls, one) for network, calls in recorder.calls.items())
        for one in (device, witness)
    }
    noise = (results - exact).square().sum()
    parts = [part for network in recorder.calls for part in network.artefact.report["subgraphs"]]
    return {
        "parts_on_dpu": sum(part["device"] == "DPU" for part in parts),
        "calls_of_parts": sum(map(len, recorder.calls.values())),
        "seconds_to_first_result": round(ready - start, 2),
        "seconds_an_image": round((end - ready) / len(images), 3),
        "sqnr_db": round(10 * math.log10(float(exact.square().sum() / noise)), 1),
        **{f"parts_equal_to_{one}": same for one, same in equal.items()},
        "results": [results.numpy()],
    }


def _same(network: Network, calls: Iterable[Any], device: str) -> bool:
    """Tell whether a runner gives what a network gave, for every call."""
    artefact = network.artefact
    with tempfile.NamedTemporaryFile(suffix=".xmodel") as file:
        file.write(artefact.model)
        file.flush()
        with api.create_runner(file.name, device=device) as runner:
            return all(_same_call(runner, artefact, *call) for call in calls)


def _same_call(
    runner: Any, artefact: Artefact, inputs: list[torch.Tensor], found: list[torch.Tensor]
) -> bool:
    feeds = {
        name: np.ascontiguousarray(_moved(tensor.numpy(), artefact.orders.get(name)))
        for name, tensor in zip(artefact.inputs, inputs, strict=True)
    }
    results, _ = api.run_batch(runner, feeds, floats=True)
    wanted = []
    for name in artefact.outputs:
        order = artefact.orders.get(name)
        wanted.append(_moved(results[name], None if order is None else np.argsort(order)))
    return _equal([tensor.numpy() for tensor in found], wanted)


def measure(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Return what one network does at every door."""
    _, size = MODULES[name]
    module = module_of(name)
    generator = torch.Generator().manual_seed(1)
    samples = torch.randn(args.samples, 3, size, size, generator=generator)
    images = torch.randn(args.images, 3, size, size, generator=generator)
    common = {"target": args.target, "device": args.device, "witness": args.witness}
    found: dict[str, Any] = {"network": name, "resolution": f"{size}x{size}", **common}
    with tempfile.TemporaryDirectory() as text:
        folder = pathlib.Path(text)
        export(module, images[:1], folder / "float.onnx")
        quantize_onnx(
            folder / "float.onnx", calibration={"image": samples.numpy()},
            output=folder / "quantized.onnx",
        )  # fmt: skip
        sessions = through_onnxruntime(
            folder / "quantized.onnx", images.numpy(), folder, args.target, args.device,
            args.witness,
        )  # fmt: skip
    dynamo = through_dynamo(module, samples, images, **common)
    doors = zip(sessions.pop("results"), dynamo.pop("results"), strict=True)
    same = all(np.array_equal(one, other) for one, other in doors)
    return {**found, "sessions": sessions, "torch.compile": dynamo, "doors_equal": same}


def main() -> None:
    """Measure and print; leave with status 1 if anything differs from the runner."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=list(MODULES), help=", ".join(MODULES))
    parser.add_argument("--target", default="B4096")
    parser.add_argument("--device", default="ref")
    parser.add_argument("--witness", default="iss", help="another device; as good as --device: off")
    parser.add_argument("--samples", type=int, default=2, help="for calibration")
    parser.add_argument("--images", type=int, default=1, help="that are compared")
    args = parser.parse_args()
    print(json.dumps([measure(name, args) for name in args.networks], indent=2))


if __name__ == "__main__":
    main()
