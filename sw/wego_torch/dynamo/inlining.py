# SPDX-License-Identifier: Apache-2.0
"""Parts of a graph that TorchDynamo keeps as graphs of their own, for the sake of training.

``torch.utils.checkpoint`` computes a part anew when gradients are asked for; without gradients, it
gives what the part gives.
"""

import operator
from typing import Any

import torch

_CHECKPOINTS = (
    torch.ops.higher_order.tag_activation_checkpoint,
    torch.ops.higher_order.wrap_activation_checkpoint,
)


def inline(graph: torch.fx.GraphModule) -> None:
    """Write the operators of checkpointed parts into a graph, in place."""
    found = False
    while calls := [node for node in graph.graph.nodes if node.target in _CHECKPOINTS]:
        found = True
        for call in calls:
            _write_out(graph, call)
    if not found:
        return
    graph.graph.eliminate_dead_code(lambda node: node.op != "get_attr")
    graph.recompile()


def _write_out(graph: torch.fx.GraphModule, call: torch.fx.Node) -> None:
    head, *given = call.args
    assert isinstance(head, torch.fx.Node)
    body = graph.get_submodule(str(head.target))
    assert isinstance(body, torch.fx.GraphModule)
    placeholders = [node for node in body.graph.nodes if node.op == "placeholder"]
    values: dict[torch.fx.Node, Any] = dict(zip(placeholders, given, strict=True))
    results: Any = None
    with graph.graph.inserting_before(call):
        for node in body.graph.nodes:
            if node.op == "output":
                results = torch.fx.map_arg(node.args[0], values.__getitem__)
            elif node.op != "placeholder":
                made = values[node] = graph.graph.node_copy(node, values.__getitem__)
                if node.op in ("get_attr", "call_module"):
                    made.target = f"{head.target}.{node.target}"
    for user in list(call.users):
        assert user.target is operator.getitem, user.format_node()
        user.replace_all_uses_with(results[user.args[1]])
        graph.graph.erase_node(user)
    graph.graph.erase_node(call)
