# SPDX-License-Identifier: Apache-2.0
"""Pass ``fold``, second half: int8 across ops that only move data.

Quantizers leave out ``fix`` ops where they change nothing: AMD's has none between a transpose and
the convolution behind it, and one behind a concatenation for all its inputs. Rounding an element
does not depend on its place, and keeps the order of two elements, so a ``fix`` may stand on either
side of such ops; with one on both sides the DPU can have them and their neighbours.
"""

from opendpu.ir import Draft, Node

MOVING = (
    "concat", "reshape", "flatten", "squeeze", "transpose", "strided_slice", "pixel-shuffle",
    "reorg", "stack",
)  # fmt: skip
LARGEST = ("maxpool2d", "reduction_max")
"""Kinds whose result is one of their inputs."""
COMPUTING = (
    "conv2d", "depthwise-conv2d", "transposed-conv2d", "transposed-depthwise-conv2d", "add", "mul",
    "inner-product", "matmul", "maxpool2d", "avgpool2d", "reduction_mean",
)  # fmt: skip
"""Kinds that the DPU computes where their inputs are quantized."""


def spread(draft: Draft) -> None:
    """Put ``fix`` ops on the other side of ops that move data; no value changes."""
    waiting = [node for node in draft if node.kind == "fix"]
    while waiting:
        waiting += _before(waiting.pop(), draft)
    draft.sort()
    for node in draft:
        _behind(node, draft)
    draft.sort()


def _before(fix: Node, draft: Draft) -> list[Node]:
    """Put a fix in front of what moves data to this one; return the new ones."""
    node = draft[fix.inputs["input"][0]]
    if node.kind not in (*MOVING, *LARGEST) or draft.consumers(node.name) != [fix]:
        return []
    if node.name in draft.outputs:
        return []
    made = []
    for place, name in enumerate(node.inputs["input"]):
        if draft[name].kind != "fix":
            made.append(_add(name, fix, draft))
            node.inputs["input"][place] = made[-1].name
    return made


def _behind(node: Node, draft: Draft) -> None:
    """Put a fix behind an op that moves quantized data to an op of the DPU."""
    if node.kind not in (*MOVING, *LARGEST) or node.name in draft.outputs:
        return
    sources = [draft[name] for name in node.inputs["input"]]
    if any(s.kind != "fix" or s.attrs != sources[0].attrs for s in sources):
        return
    users = draft.consumers(node.name)
    if any(user.kind == "fix" for user in users):
        return
    if _reaches_dpu(node, draft):
        fix = _add(node.name, sources[0], draft)
        draft.replace(node.name, fix.name)
        fix.inputs["input"] = [node.name]


def _reaches_dpu(node: Node, draft: Draft) -> bool:
    """Tell whether an op of the DPU reads a result, at once or behind others that move data."""
    return any(
        user.kind in COMPUTING or (user.kind in MOVING and _reaches_dpu(user, draft))
        for user in draft.consumers(node.name)
    )


def _add(name: str, like: Node, draft: Draft) -> Node:
    made = draft.unique(f"{name}_fix")
    return draft.add(made, "fix", draft[name].shape, {"input": [name]}, like.attrs)
