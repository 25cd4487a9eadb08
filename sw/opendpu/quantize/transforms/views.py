# SPDX-License-Identifier: Apache-2.0
"""Activations behind a reshape of what a layer makes, as the exporters of sequences write them.

The layer's engine applies an activation that reads its result directly, for nothing and before it
rounds. A reshape in between would make it an op of its own; behind it, it is only another view.
"""

from opendpu.ir import Graph, Node
from opendpu.ops import operator_of


def activations_first(graph: Graph) -> None:
    """Let activations read layers whose reshaped results they read alone, in place."""
    users = graph.consumer_map()
    for node in list(graph):
        if node.kind != "reshape" or len(users[node.name]) != 1 or node.name in graph.outputs:
            continue
        (act,), (source,) = users[node.name], node.inputs["input"]
        if act.kind in operator_of(graph[source]).fuses and act.name not in graph.outputs:
            alone = users[source] == [node] and source not in graph.outputs
            if alone and act.inputs["input"] == [node.name]:
                _exchange(graph, source, node, act)
                users = graph.consumer_map()
    graph.sort()
    graph.prune()


def _exchange(graph: Graph, source: str, view: Node, act: Node) -> None:
    """Put an activation in front of the reshape that it reads."""
    behind = graph.add(
        graph.unique(f"{act.name}_reshape"), "reshape", act.type, {"input": [act.name]},
        dict(view.attrs), origin=view.origin,
    )  # fmt: skip
    act.type = act.type.with_shape(graph[source].shape)
    act.inputs["input"] = [source]
    for user in graph.consumers(act.name):
        if user is behind:
            continue
        same = user.kind == "reshape" and user.shape == act.shape
        if same and user.name not in graph.outputs:
            graph.replace(user.name, act.name)
            behind.inputs["input"] = [act.name]
            continue
        user.inputs = {
            arg: [behind.name if name == act.name else name for name in names]
            for arg, names in user.inputs.items()
        }
