# SPDX-License-Identifier: Apache-2.0
"""Measures one network: quantizes it once for each substitution, compiles it for each target.

Each step is a process of its own, so that its peak of memory is known; what it makes is kept.
"""

import json
import pathlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import xir
from network_survey.agreement import agreement, sqnr
from network_survey.samples import samples
from network_survey.subjects import SUBJECTS, Subject, onnx_shape
from opendpu import api
from opendpu.compiler.report import Report
from opendpu.ir import FloatGraph, Graph, Node, from_xir, to_xir
from opendpu.ops import cost
from opendpu.ops.session import Session
from opendpu.quantize import quantize
from opendpu.runtime import GraphRunner
from opendpu_arch.target import Target

CALIBRATION, TEST = 8, 8
"""Samples to quantize with, and to compare."""
CALIBRATION_SEED, TEST_SEED = 0, 1
MEMORY = "kv260"
LEAST_UTILIZATION = 0.25
SLOW_SHARE = 0.02
"""Layers under the least utilization are named from this share of a network's cycles on."""
REASONS = ("lanes", "load", "save", "misc", "issue", "fill")
COMPARED = "B4096"
"""Target whose results are compared."""

TABLE = "table"
"""The variant for targets with the extension ``table``; the others are plain."""

Figures = dict[str, Any]


def macs_of(graph: Graph) -> int:
    """Return the multiply-accumulates of a float graph, of products of feature maps too.

    Those inside operators that stay ONNX, such as recurrent layers, are not counted.
    """
    return sum(_node_macs(node, graph) for node in graph)


def _node_macs(node: Node, graph: Graph) -> int:
    found = cost.macs(node, graph)
    if node.kind == "matmul" and not found:
        left = graph[node.inputs["input"][0]].shape
        shared = left[-2] if node.attrs.get("transpose_a") else left[-1]
        return int(np.prod(node.shape)) * shared
    return found


def _cpu_macs(graph: Graph, report: Report) -> int:
    """Return the multiply-accumulates of a quantized graph that are left to the CPU."""
    names = {name for part in report.subgraphs if part.device == "CPU" for name in part.ops}
    return sum(_node_macs(node, graph) for node in graph if node.name in names)


def quantized_step(name: str, substitution: str, folder: pathlib.Path) -> Figures:
    """Quantize a network and keep the graph; return time and memory."""
    subject = SUBJECTS[name]
    graph = subject.load()
    calibration = _samples(subject, graph, CALIBRATION, CALIBRATION_SEED)
    start = time.perf_counter()
    if substitution == TABLE:
        made = quantize(graph, calibration, target=Target.from_name(f"{COMPARED}+{TABLE}"))
    else:
        made = quantize(graph, calibration, activation_substitution=substitution)
    figures = {"quantize_seconds": time.perf_counter() - start, "quantize_megabytes": _peak()}
    to_xir(made).serialize(folder / f"{name}.{substitution}.xmodel")
    return {**figures, "macs": macs_of(graph), "nodes": len(graph.nodes)}


def compiled_step(name: str, substitution: str, target: str, folder: pathlib.Path) -> Figures:
    """Compile a quantized network for a target; return what runs where, and how fast."""
    quantized = xir.Graph.deserialize(folder / f"{name}.{substitution}.xmodel")
    start = time.perf_counter()
    chosen = f"{target}+{TABLE}" if substitution == TABLE else target
    compiled = api.compile_graph(quantized, target=chosen)
    figures: Figures = {
        "compile_seconds": time.perf_counter() - start, "compile_megabytes": _peak(),
    }  # fmt: skip
    parts = compiled.report.subgraphs
    dpu = [part for part in parts if part.device == "DPU"]
    figures |= {
        "dpu": len(dpu), "cpu": sum(part.device == "CPU" for part in parts),
        "macs": sum(part.macs for part in dpu),
        "cpu_macs": _cpu_macs(from_xir(quantized), compiled.report),
        "cpu_ms": 1e3 * sum(part.cpu_seconds for part in parts),
        "on_cpu": sorted(set(compiled.report.on_cpu.values())),
    }  # fmt: skip
    if dpu:
        figures |= _profiled(compiled.graph)
    if target == COMPARED:
        figures |= _compared(SUBJECTS[name], compiled.graph)
    return figures


def _profiled(graph: xir.Graph) -> Figures:
    """Return cycles, and the layers that leave most of the array idle, with the main reason."""
    found = api.profile(graph, memory=MEMORY).as_dict()
    cycles = found["total"]["cycles"]
    slow = []
    for row in found["layers"]:
        small = row["cycles"] < SLOW_SHARE * cycles
        if small or row["utilization"] >= LEAST_UTILIZATION:
            continue
        reason = max(REASONS, key=lambda key: row[key])
        slow.append(
            {
                "layer": row["layer"], "cycles": int(row["cycles"]), "reason": reason,
                "utilization": row["utilization"],
            }
        )  # fmt: skip
    slow.sort(key=lambda row: -row["cycles"])
    return {"cycles": int(cycles), "utilization": found["total"]["utilization"], "slow": slow}


def _compared(subject: Subject, graph: xir.Graph) -> Figures:
    """Run a compiled network on the functional simulator beside the float network."""
    floating = subject.load()
    order = floating.attrs.get("onnx_order", {})
    session = Session(floating)
    wanted: dict[str, list[Any]] = {name: [] for name in floating.outputs}
    found: dict[str, list[Any]] = {name: [] for name in floating.outputs}
    with GraphRunner(graph, device="iss") as runner:
        ports = {_origin(t.name): t for t in runner.get_input_tensors()}
        for sample in _each(_samples(subject, floating, TEST, TEST_SEED), floating):
            feeds = {n: a.astype(floating[n].type.dtype) for n, a in sample.items()}
            given = {
                tensor.name: feeds[name].reshape(tensor.dims) for name, tensor in ports.items()
            }
            results = runner.run(given)
            exact = session.run(feeds)
            for output, name in zip(floating.outputs, _in_order(graph), strict=True):
                real = _real(runner, name, results[name]).reshape(exact[output].shape)
                axes = np.argsort(order[output]) if output in order else None
                for kept, array in ((wanted, exact[output]), (found, real)):
                    kept[output].append(array.transpose(axes) if axes is not None else array)
    one = {name: np.stack(arrays) for name, arrays in wanted.items()}
    other = {name: np.stack(arrays) for name, arrays in found.items()}
    return {"sqnr": sqnr(one, other), "agreement": agreement(subject.measure, one, other)}


def _samples(subject: Subject, graph: FloatGraph, count: int, seed: int) -> dict[str, Any]:
    """Return samples of all inputs in ONNX's layout, batch in front."""
    found = {}
    for node in (node for node in graph if node.kind == "data"):
        shape = onnx_shape(graph, node.name)
        if node.name in subject.others:
            value = subject.others[node.name]
            found[node.name] = np.full((count, *shape), value, node.type.dtype)
        else:
            found[node.name] = samples(
                subject.form, shape, node.type.dtype, count, seed, whole=seed == CALIBRATION_SEED
            )
    return found


def _each(given: dict[str, Any], graph: FloatGraph) -> list[dict[str, Any]]:
    """Return one sample after the other, in the graph's layout."""
    order = graph.attrs.get("onnx_order", {})
    each = []
    for number in range(TEST):
        sample = {}
        for name, array in given.items():
            one = array[number : number + 1]
            one = one.transpose(order[name]) if name in order else one
            sample[name] = one.reshape(graph[name].shape)
        each.append(sample)
    return each


def _origin(tensor: str) -> str:
    """Return the name of the input behind the tensor of its ``fix``."""
    return tensor.removesuffix("_fix")


def _in_order(graph: xir.Graph) -> list[str]:
    """Return the results' names in the order of the network's outputs."""
    names = {op.get_name(): op.get_output_tensor().name for op in graph.get_ops()}
    return [names[name] for name in graph.get_attr("return_ops")]


def _real(runner: GraphRunner, name: str, array: Any) -> Any:
    (tensor,) = (t for t in runner.get_output_tensors() if t.name == name)
    if array.dtype != np.int8:
        return array
    return array * 2.0 ** -tensor.get_attr("fix_point")


def _peak() -> float | None:
    """Return the most memory that this process took, in MB; nothing where the system does not say.

    ``ru_maxrss`` would begin with that of the process that started this one.
    """
    try:
        text = pathlib.Path("/proc/self/status").read_text()
    except OSError:
        return None
    (line,) = (line for line in text.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


STEPS: dict[str, Callable[..., Figures]] = {
    "quantize": quantized_step,
    "compile": compiled_step,
}


def run_step(step: str, arguments: list[str], folder: pathlib.Path) -> None:
    """Run a step in this process and print its figures as JSON."""
    print(json.dumps(STEPS[step](*arguments, folder)))
