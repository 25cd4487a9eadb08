# SPDX-License-Identifier: Apache-2.0
"""How exact exported ONNX files are, and what they cost: prints JSON, a network a line.

Each network is quantized with random inputs, exported in several forms, and run in onnxruntime;
the numbers of every quantized tensor are compared with the DPU's (``opendpu.integer``). What is
read back is compiled, to see that it is the same program.

    python scripts/bench/bench_export.py MODEL.onnx ... [--input-shape NAME=1,3,224,224]
"""

import argparse
import json
import pathlib
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from opendpu import api
from opendpu.compiler.options import Options
from opendpu.deploy_check import deploy_check
from opendpu.export import to_onnx
from opendpu.export.reference import IntegerReference, computed_fixes, with_outputs
from opendpu.frontend import load_onnx
from opendpu.ir import QuantizedGraph
from opendpu.quantize import complete, quantize
from opendpu_arch.target import Target

FILES = {"exact": ("native", True), "plain": ("native", False), "fixneuron": ("fixneuron", True)}
"""Form, and whether it rounds as the DPU, by name."""

Arrays = Mapping[str, npt.NDArray[Any]]


def main() -> None:
    """Measure the networks that are given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--input-shape", action="append", default=[])
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--images", type=int, default=4)
    parser.add_argument("--target", default="B4096")
    given = parser.parse_args()
    shapes = Options().with_input_shapes(given.input_shape).input_shape
    for path in given.models:
        print(json.dumps(measured(path, shapes, given)), flush=True)


def measured(path: pathlib.Path, shapes: Any, given: argparse.Namespace) -> dict[str, Any]:
    """Return what becomes of one network."""
    graph = load_onnx(path, shapes)
    heads = [node for node in graph if node.kind == "data"]
    random = np.random.default_rng(0)

    def draw(count: int) -> dict[str, npt.NDArray[Any]]:
        return {
            n.name: random.standard_normal((count, *n.shape[1:])).astype(n.type.dtype)
            for n in heads
        }

    made = quantize(graph, draw(given.samples), refinement=False)
    inputs = draw(given.images)
    target = Target.from_name(given.target)
    (one,) = deploy_check(
        made, {name: array[:1] for name, array in inputs.items()}, target=target, devices=["ref"]
    )
    program = code(made, target)
    return {
        "model": path.name, "target": target.name, "reference": str(one),
        "files": {
            name: file_of(made, form, exact=exact, inputs=inputs, target=target, program=program)
            for name, (form, exact) in FILES.items()
        },
    }  # fmt: skip


def file_of(
    graph: QuantizedGraph,
    form: str,
    *,
    exact: bool,
    inputs: Arrays,
    target: Target,
    program: list[bytes],
) -> dict[str, Any]:
    """Return how an exported file does."""
    bare = graph.copy()
    bare.attrs.pop("onnx_order", None)
    model = to_onnx(bare, form, exact=exact)
    values = {name for node in model.graph.node for name in node.output}
    names = [name for name in computed_fixes(graph) if name in values]
    session = onnxruntime.InferenceSession(with_outputs(model, names).SerializeToString())
    plain = onnxruntime.InferenceSession(model.SerializeToString())
    reference = IntegerReference(bare)
    differing = elements = layers = 0
    seconds = []
    for index in range(len(next(iter(inputs.values())))):
        feed = {name: array[index : index + 1] for name, array in inputs.items()}
        wanted = reference.run(feed)
        for name, found in zip(names, session.run(names, feed), strict=True):
            if graph[name].kind == "fix" and found.dtype.kind == "f":
                found = np.rint(found / graph[name].quantization.scale[0])
            shape = wanted[name].shape
            straight = found if found.shape == shape else found.transpose(0, 2, 3, 1)
            count = int((straight != wanted[name]).sum())
            differing, elements = differing + count, elements + found.size
            layers += bool(count)
        start = time.perf_counter()
        plain.run(None, feed)
        seconds.append(time.perf_counter() - start)
    back = complete(load_onnx(to_onnx(graph, form, exact=exact)))
    return {
        "differing": differing / max(elements, 1), "tensors_differing": layers / len(seconds),
        "ms": round(1e3 * min(seconds), 2), "bytes": model.ByteSize(),
        "same_program": code(back, target) == program,
    }  # fmt: skip


def code(graph: QuantizedGraph, target: Target) -> list[bytes]:
    """Return the machine code of a compiled graph."""
    compiled = api.compile_graph(graph, target=target)
    return [part.get_attr("mc_code") for part in api.dpu_subgraphs(compiled.graph)]


if __name__ == "__main__":
    main()
