# SPDX-License-Identifier: Apache-2.0
"""How long networks take, in multiply-accumulates or what takes as long."""

import numpy as np

from opendpu.ir import Graph, Node
from opendpu.ops.cost import macs

ELEMENT_WORK = 200
"""Multiply-accumulates that take as long as an element that is added, rounded and moved."""


def op_work(node: Node, graph: Graph) -> float:
    """Return what an op takes on one sample; nothing for a constant."""
    if node.value is not None:
        return 0.0
    return macs(node, graph) + ELEMENT_WORK * float(np.prod(node.shape))


def network_work(graph: Graph) -> float:
    """Return what all ops together take on one sample."""
    return sum(op_work(node, graph) for node in graph)
