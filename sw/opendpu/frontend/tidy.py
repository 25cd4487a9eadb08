# SPDX-License-Identifier: Apache-2.0
"""Small clean-ups of a freshly converted graph."""

from opendpu.ir import Graph, Node

_PADDED = ("conv2d", "depthwise-conv2d")


def tidy(graph: Graph) -> None:
    """Merge zero padding into convolutions and chains of reshapes; drop what nobody uses."""
    graph.prune()
    graph.sort()
    for node in graph:
        if node.kind in _PADDED:
            _merge_pad(graph, node)
        elif node.kind == "reshape":
            _merge_reshape(graph, node)
    graph.prune()


def _merge_pad(graph: Graph, node: Node) -> None:
    pad = graph[node.inputs["input"][0]]
    if pad.kind != "pad" or pad.attrs["mode"] != "CONSTANT":
        return
    paddings = pad.attrs["paddings"]
    if any(pad.attrs["constant_values"]) or any(paddings[:2]) or any(paddings[6:]):
        return
    top, bottom, left, right = paddings[2:6]
    old = node.attrs["pad"]
    node.attrs["pad"] = [old[0] + left, old[1] + right, old[2] + top, old[3] + bottom]
    node.inputs["input"] = list(pad.inputs["input"])


def _merge_reshape(graph: Graph, node: Node) -> None:
    before = graph[node.inputs["input"][0]]
    if before.kind == "reshape" and before.name not in graph.outputs:
        node.inputs["input"] = list(before.inputs["input"])
    source = node.inputs["input"][0]
    if graph[source].shape == node.shape and node.name not in graph.outputs:
        graph.replace(node.name, source)
