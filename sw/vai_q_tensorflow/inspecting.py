# SPDX-License-Identifier: Apache-2.0
"""``vai_q_tensorflow inspect``: operators, inputs and outputs of a frozen graph."""

from collections import Counter
from typing import Any

from opendpu.frontend.tensorflow.graphdef import Node
from opendpu.frontend.tensorflow.importer import INPUT, sinks
from vai_q_tensorflow.graph import read_nodes


def inspect(path: str) -> str:
    """Return the text: how often operators are used, possible inputs and outputs.

    Raises
    ------
    DPUError
        As of :func:`vai_q_tensorflow.graph.read_nodes`.
    """
    nodes = read_nodes(path)
    counts = Counter(node.op for node in nodes.values()).most_common()
    lines = [f"Op types used: {', '.join(f'{count} {op}' for op, count in counts)}", ""]
    heads = [node for node in nodes.values() if node.op == INPUT]
    lines.append(f"Found {len(heads)} possible inputs: {' '.join(map(_input, heads))}")
    ends = [nodes[name] for name in sinks(nodes)]
    shown = " ".join(f"(name={node.name}, op={node.op})" for node in ends)
    lines.append(f"Found {len(ends)} possible outputs: {shown}")
    return "\n".join(lines)


def _input(node: Node) -> str:
    dtype: Any = node.attr("dtype")
    shape = node.attr("shape")
    sizes = "None" if shape is None else "[" + ",".join(
        "?" if size < 0 else str(size) for size in shape
    ) + "]"  # fmt: skip
    number = node.attrs["dtype"].type if "dtype" in node.attrs else 0
    kind = "float" if str(dtype) == "float32" else dtype
    return f"(name={node.name}, type={kind}({number}), shape={sizes})"
