# SPDX-License-Identifier: Apache-2.0
"""The softmaxes of a detector's head, which stay in float: what follows them only decodes.

Distributions of a box's sides (DFL: "Generalized Focal Loss", arXiv 2006.04388) become sides by one
small product with constants. Eight bits of a probability move the sides by a good part of a pixel,
and hardly any work is behind them that the DPU could do faster.
"""

import math
from collections.abc import Iterable

from opendpu.ir import Graph, Node
from opendpu.ops import cost

SHARE = 1e-3
"""Part of a network's multiply-accumulates that is at most behind a softmax of its head."""
REASON = (
    "it belongs to the head, which stays in float: what follows is under "
    f"{SHARE:.1%} of the network's multiply-accumulates"
)


def of_head(graph: Graph, names: Iterable[str]) -> list[str]:
    """Return those ops behind which hardly any work is left, and no product of feature maps.

    Neither one of matrices nor one of elements that is larger than the op's result, which then
    chooses between maps (SKNet) or pixels, as attention does.
    """
    work = {node.name: cost.macs(node, graph) for node in graph}
    total, users = sum(work.values()), graph.consumer_map()
    found = []
    for name in names:
        behind = _behind(name, users)
        size = math.prod(graph[name].shape)
        if not any(_is_product(graph, node, size) for node in behind.values()) and (
            sum(work[other] for other in behind) < SHARE * total
        ):
            found.append(name)
    return found


def _behind(name: str, users: dict[str, list[Node]]) -> dict[str, Node]:
    """Return every op that depends on an op, by name."""
    found: dict[str, Node] = {}
    waiting = [name]
    while waiting:
        new = [user for user in users[waiting.pop()] if user.name not in found]
        found |= {user.name: user for user in new}
        waiting += [user.name for user in new]
    return found


def _is_product(graph: Graph, node: Node, size: int) -> bool:
    """Return whether an op multiplies two feature maps, as attention does."""
    if node.kind not in (*cost.PRODUCTS, "mul") or any(
        graph[source].kind == "const" for source in node.sources()
    ):
        return False
    return node.kind != "mul" or math.prod(node.shape) > size
