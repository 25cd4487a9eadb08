# SPDX-License-Identifier: Apache-2.0
"""Expand and Tile in front of operators that repeat their operands themselves: left out."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx

from opendpu.frontend.def_use import DefUse, reading
from opendpu.frontend.model_file import reads
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

REPETITIONS = frozenset({"Expand", "Tile"})
REPEATING = frozenset({"Add", "Div", "Max", "Min", "Mul", "Pow", "Sub", "Sum"})
"""Operators whose operands repeat along axes of size 1."""


def unrepeated(
    nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, Array],
    uses: Counter[str],
    shape_of: Callable[[str], tuple[int, ...] | None],
) -> list[onnx.NodeProto]:
    """Return the nodes without repetitions that change no result.

    ``shape_of`` says the shape of a float32 tensor.
    """
    links = DefUse(nodes, uses)
    sources: dict[str, str] = {}

    def shape(name: str) -> tuple[int, ...] | None:
        name = sources.get(name, name)
        return constants[name].shape if name in constants else shape_of(name)

    def is_needless(node: onnx.NodeProto) -> bool:
        before, after = shape(node.input[0]), shape_of(node.output[0])
        readers = links.readers.get(node.output[0], [])
        if before is None or after is None or not readers or not _repeats_ones(before, after):
            return False
        if uses[node.output[0]] != sum(list(reads(r)).count(node.output[0]) for r in readers):
            return False
        kept = dict(sources)
        sources[node.output[0]] = sources.get(node.input[0], node.input[0])
        if all(_has_shape(reader, shape, shape_of) for reader in readers):
            return True
        sources.clear()
        sources.update(kept)
        return False

    dropped = {
        id(node) for node in nodes
        if node.op_type in REPETITIONS and node.domain in DEFAULT_DOMAINS and is_needless(node)
    }  # fmt: skip
    return [reading(node, sources) for node in nodes if id(node) not in dropped]


def _repeats_ones(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Return whether nothing but axes of size 1 becomes longer."""
    missing = len(after) - len(before)
    return missing >= 0 and all(
        size in (1, longer) for size, longer in zip(before, after[missing:], strict=True)
    )


def _has_shape(
    reader: onnx.NodeProto,
    shape: Callable[[str], tuple[int, ...] | None],
    shape_of: Callable[[str], tuple[int, ...] | None],
) -> bool:
    """Return whether operands of a shape make the result that a node has."""
    operands = [shape(name) for name in reader.input]
    known = [one for one in operands if one is not None]
    if reader.op_type not in REPEATING or reader.domain not in DEFAULT_DOMAINS:
        return False
    return len(known) == len(operands) and (
        np.broadcast_shapes(*known) == shape_of(reader.output[0])
    )
