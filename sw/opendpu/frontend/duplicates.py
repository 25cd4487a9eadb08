# SPDX-License-Identifier: Apache-2.0
"""Means and differences that a model computes twice, once.

``torch.var`` and ``torch.mean`` of the same tensor, as image transformers write LayerNorm over
channels, have a mean and a difference each when they are exported.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import onnx

from opendpu.frontend.def_use import reading
from opendpu.frontend.model_file import reads
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

ALIKE = ("ReduceMean", "Sub")
"""Operators that are looked at."""
DEFAULTS = {"keepdims": 1, "noop_with_empty_axes": 0}
"""Attributes that need not be there."""
MOST_AXES = 8
"""Axes that a tensor has at most, as far as they are looked at."""


def without_duplicates(
    nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Array], outputs: Collection[str]
) -> list[onnx.NodeProto]:
    """Return nodes, in order, that read the first of several equal results.

    ``outputs`` are the model's, whose nodes stay, and so do those that bodies of other nodes read.
    ``constants`` are its weights, of which axes are the same where their numbers are.
    """
    captured = {name for node in nodes for name in set(reads(node)) - set(node.input)}
    first: dict[bytes, str] = {}
    renamed: dict[str, str] = {}
    kept = []
    for node in nodes:
        made = reading(node, renamed)
        kept.append(made)
        if node.op_type not in ALIKE or node.domain not in DEFAULT_DOMAINS or len(node.output) != 1:
            continue
        same = first.setdefault(_key(made, constants), made.output[0])
        if same != made.output[0] and not {made.output[0]} & {*outputs, *captured}:
            renamed[made.output[0]] = same
            kept.pop()
    return kept


def _key(node: onnx.NodeProto, constants: Mapping[str, Array]) -> bytes:
    """Return what nodes that compute the same have in common."""
    bare = onnx.NodeProto(op_type=node.op_type)
    for name in node.input:
        value = constants.get(name)
        few = value is not None and value.dtype == np.int64 and value.size <= MOST_AXES
        bare.input.append(f"{value.tolist()}" if value is not None and few else f"tensor {name}")
    said = [item for item in node.attribute if DEFAULTS.get(item.name) != item.i]
    bare.attribute.extend(sorted(said, key=lambda item: item.name))
    return bare.SerializeToString(deterministic=True)
