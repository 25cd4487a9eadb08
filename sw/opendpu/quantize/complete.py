# SPDX-License-Identifier: Apache-2.0
"""Models that come quantized: positions for the constants that they leave in float."""

import numpy as np

import xir
from opendpu.ir import Draft, Node
from opendpu.quantize.approximate import approximate
from opendpu.quantize.calibrate import best_position
from opendpu.quantize.fold import LAYERS
from opendpu.quantize.legality import SHIFT_BIAS

EXACT = (
    "reshape", "flatten", "squeeze", "transpose", "strided_slice", "concat", "maxpool2d",
    "reduction_max", "relu",
)  # fmt: skip
"""Kinds whose result is on the grid of their inputs."""


def is_quantized(graph: xir.Graph) -> bool:
    """Return whether a graph has tensors that are quantized already."""
    return any(op.get_type() == "fix" for op in graph.get_ops())


def complete(graph: xir.Graph) -> xir.Graph:
    """Return a quantized graph with a ``fix`` wherever the DPU needs one and it is known.

    What only moves or compares data gets its input's behind it. Weights without a ``fix`` get the
    position with the least squared error. Biases, which other quantizers keep in 32 bits, get 8
    bits at the finest position at which none saturates and that the DPU can shift to the
    accumulator's.
    """
    draft = Draft.from_xir(graph)
    approximate(draft)
    for node in draft:
        if node.kind not in LAYERS or draft[node.inputs["input"][0]].kind != "fix":
            continue
        weights = _quantized(draft, node, "weights", range(-128, 128))
        accumulator = weights + int(draft[node.inputs["input"][0]].attrs["fix_point"])
        if node.inputs.get("bias"):
            most = accumulator + 1
            _quantized(draft, node, "bias", range(most - SHIFT_BIAS[-1], most + 1))
    draft.sort()
    for node in draft:
        _fix_behind(draft, node)
    draft.sort()
    draft.prune()
    return draft.to_xir()


def _quantized(draft: Draft, layer: Node, arg: str, allowed: range) -> int:
    """Put a ``fix`` behind a constant that has none; return its position."""
    source = draft[layer.inputs[arg][0]]
    if source.kind == "fix":
        return int(source.attrs["fix_point"])
    if source.value is None:
        return 0
    method = "minmse" if arg == "weights" else "nonoverflow"
    position = best_position(source.value, method=method)
    position = min(max(position, allowed[0]), allowed[-1])
    integers = np.clip(np.floor(source.value * 2.0**position + 0.5), -128, 127)
    name = draft.add_const(f"{source.name}_rounded", integers * 2.0**-position).name
    attrs = {"bit_width": 8, "fix_point": position, "if_signed": True, "round_mode": "DPU_ROUND"}
    fix = draft.add(draft.unique(f"{name}_fix"), "fix", source.shape, {"input": [name]}, attrs)
    layer.inputs[arg] = [fix.name]
    return position


def _fix_behind(draft: Draft, node: Node) -> None:
    """Put a ``fix`` behind a node whose result is on its inputs' grid and has none."""
    sources = [draft[name] for name in node.sources()]
    users = draft.consumers(node.name)
    if node.kind not in EXACT or any(user.kind == "fix" for user in users):
        return
    if any(source.kind != "fix" or source.attrs != sources[0].attrs for source in sources):
        return
    name = draft.unique(f"{node.name}_fix")
    fix = draft.add(name, "fix", node.shape, {"input": [node.name]}, sources[0].attrs)
    draft.replace(node.name, fix.name)
    fix.inputs = {"input": [node.name]}
