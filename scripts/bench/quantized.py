# SPDX-License-Identifier: Apache-2.0
"""Quantized graphs of the networks that benchmarks measure, kept in a cache.

The key is the content of all code that has a say in the result, so that work on the compiler finds
the graph again and work on the quantizer does not.
"""

import contextlib
import dataclasses
import hashlib
import pathlib
import sys
import time

import networks
import numpy as np
import platformdirs

import opendpu
import xir
from opendpu.frontend import load_onnx
from opendpu.ir import FloatGraph, QuantizedGraph, to_xir
from opendpu.quantize import quantize
from opendpu_arch.errors import ModelFormatError, OutputError
from opendpu_arch.target import Target

SAMPLES = 8
"""Calibration images."""
TINY = {
    "kws": ("kws_dscnn.onnx", 4.0),
    "ic": ("ic_resnet8.onnx", 255.0),
    "vww": ("vww_mobilenetv1_025.onnx", 1.0),
    "ad": ("ad01.onnx", 4.0),
}
"""MLPerf Tiny: file and range of the input."""
NAMES = (*networks.NETWORKS, *TINY)
"""All networks."""


@dataclasses.dataclass(frozen=True)
class Quantized:
    """A quantized graph and the time it took; 0 from the cache."""

    graph: xir.Graph
    seconds: float


def quantized(
    name: str,
    models: pathlib.Path,
    cache: pathlib.Path | None = None,
    extended: Target | None = None,
) -> Quantized:
    """Return a network, from the cache if it is there.

    ``models`` is the folder with ``mlperf_tiny``; ``cache`` defaults to the user's. A network that
    uses the extensions of a target is made for ``extended``; without it, it runs on all.
    """
    folder = cache or pathlib.Path(platformdirs.user_cache_dir("opendpu")) / "networks"
    own = "".join(f"+{one.label}" for one in sorted(extended.extensions)) if extended else ""
    path = folder / f"{name}{own}_{_key(name, models)}.xmodel"
    with contextlib.suppress(ModelFormatError):  # none, or a damaged one: made again
        return Quantized(xir.Graph.deserialize(path), 0.0)
    start = time.perf_counter()
    graph = to_xir(_quantize(name, models, extended if own else None))
    seconds = time.perf_counter() - start
    try:
        folder.mkdir(parents=True, exist_ok=True)
        graph.serialize(path)
    except (OSError, OutputError) as error:
        print(f"{name} is quantized again the next time: {error}", file=sys.stderr)
    return Quantized(graph, seconds)


def _quantize(name: str, models: pathlib.Path, target: Target | None) -> QuantizedGraph:
    noise = np.random.default_rng(0)
    if name in TINY:
        file, largest = TINY[name]
        graph = load_onnx(models / "mlperf_tiny" / file)
        return quantize(
            graph,
            {_head(graph)[0]: noise.random(_head(graph)[1], np.float32) * largest},
            target=target,
        )
    graph = load_onnx(networks.NETWORKS[name]())
    head, shape = _head(graph)
    return quantize(graph, {head: noise.standard_normal(shape, np.float32)}, target=target)


def _head(graph: FloatGraph) -> tuple[str, tuple[int, ...]]:
    """Return name and shape of the only input, with a batch of samples."""
    (head,) = (node for node in graph if node.kind == "data")
    return head.name, (SAMPLES, *head.shape[1:])


def _key(name: str, models: pathlib.Path) -> str:
    root = pathlib.Path(opendpu.__file__).parent
    files = [pathlib.Path(__file__)]
    for folder in ("frontend", "quantize", "ops", "ir"):
        files += (root / folder).rglob("*.py")
    if name in TINY:
        files.append(models / "mlperf_tiny" / TINY[name][0])
    else:
        files += pathlib.Path(networks.__file__).parent.glob("*.py")
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
