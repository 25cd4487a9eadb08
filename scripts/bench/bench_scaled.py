# SPDX-License-Identifier: Apache-2.0
"""The int8 files of MLPerf Tiny on targets with ``scaled``, against LiteRT's reference kernels.

Counts the output bytes that differ on random inputs, half of them real clips for the keyword
network, and how many of its labelled clips are right. ``--device none`` asks the integer reference
alone, others compile first. Needs ``ai-edge-litert`` (``opendpu[dev]``) and the models beside the
project.

    python scripts/bench/bench_scaled.py --models ../shared/models --inputs 1000 --device iss
"""

import argparse
import dataclasses
import json
import pathlib
import sys
import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu import api
from opendpu.frontend.tflite import load_tflite
from opendpu.integer import IntegerNetwork
from opendpu.quantize import complete

Bytes = npt.NDArray[np.int8]
NETWORKS = ("ad01", "ic_resnet8", "kws_dscnn", "vww_96")
CLIPS = "kws_dscnn"
SEED = 7


@dataclasses.dataclass(frozen=True)
class Compared:
    """What came of one network."""

    network: str
    device: str
    inputs: int
    bytes: int
    different: int
    right: int | None = None
    """Of the labelled clips."""
    clips: int | None = None


def reference(path: pathlib.Path, samples: Bytes) -> Bytes:
    """Return what LiteRT's reference kernels compute."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    made = Interpreter(str(path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    made.allocate_tensors()
    (given,), (result,) = made.get_input_details(), made.get_output_details()
    found = []
    for sample in samples:
        made.set_tensor(given["index"], sample[None])
        made.invoke()
        found.append(made.get_tensor(result["index"])[0].copy())
    return np.stack(found)


def random_samples(path: pathlib.Path, count: int, random: np.random.Generator) -> Bytes:
    """Return inputs of random bytes."""
    (head,) = (node for node in load_tflite(path, any_scale=True) if node.kind == "data")
    return random.integers(-128, 128, (count, *head.shape[1:])).astype(np.int8)


def on_device(path: pathlib.Path, samples: Bytes, device: str, target: str) -> Bytes:
    """Return what a compiled file computes."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "made.xmodel"
        api.compile_onnx(path, target=target, output=output)
        with api.create_runner(output, device=device) as runner:
            (given,), (result,) = runner.get_input_tensors(), runner.get_output_tensors()
            found = []
            for sample in samples:
                made = {result.name: np.empty(result.dims, result.data_type.numpy())}
                runner.wait(runner.execute_async({given.name: sample[None]}, made))
                found.append(made[result.name][0])
    return np.stack(found)


def by_reference(path: pathlib.Path, samples: Bytes) -> Bytes:
    """Return what the integer reference computes."""
    graph = complete(load_tflite(path, any_scale=True))
    (head,) = (node for node in graph if node.kind == "data")
    network = IntegerNetwork(graph, scaled=True)
    parts = [network.run({head.name: part}) for part in np.array_split(samples, 10)]
    return np.concatenate([next(iter(part.values())) for part in parts])


def compare(models: pathlib.Path, name: str, count: int, device: str, target: str) -> Compared:
    """Compare one network."""
    path = models / "mlperf_tiny" / "int8" / f"{name}_int8.tflite"
    samples = random_samples(path, count, np.random.default_rng(SEED))
    labels: npt.NDArray[Any] | None = None
    if name == CLIPS:
        clips = np.load(models / "mlperf_tiny" / "kws01.npz")
        labels = clips["y"]
        samples = np.concatenate([clips["x"], samples[: count // 2]])
    expected = reference(path, samples)
    ours = by_reference(path, samples) if device == "none" else (
        on_device(path, samples, device, target)
    )  # fmt: skip
    found = Compared(name, device, len(samples), expected.size, int((ours != expected).sum()))
    if labels is None:
        return found
    right = int((ours[: len(labels)].argmax(axis=1) == labels).sum())
    return dataclasses.replace(found, right=right, clips=len(labels))


def main(arguments: list[str] | None = None) -> int:
    """Print a JSON object a network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=pathlib.Path, default=pathlib.Path("../shared/models"))
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--device", default="none")
    parser.add_argument("--target", default="B4096+scaled")
    parser.add_argument("--network", action="append", choices=NETWORKS)
    args = parser.parse_args(arguments)
    for name in args.network or NETWORKS:
        found = compare(args.models, name, args.inputs, args.device, args.target)
        print(json.dumps(dataclasses.asdict(found)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
