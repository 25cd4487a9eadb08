# SPDX-License-Identifier: Apache-2.0
"""Hard-sigmoid and hard-swish where exporters write them as sums, ReLU6 and products."""

import numpy as np

from opendpu.ir import Draft, Node

SIXTH = 1 / 6
TOLERANCE = 1e-4


def recognize(draft: Draft) -> None:
    """Replace ``relu6(x + 3) / 6`` and ``x * relu6(x + 3) / 6``, in place."""
    for node in draft:
        if not _is_affine(draft, node, SIXTH, 0):
            continue
        inner = draft[node.inputs["input"][0]]
        source = _shifted(draft, inner, node)
        if source is not None:
            node.kind, node.inputs, node.attrs = "hard-sigmoid", {"input": [source]}, {}
        elif inner.kind == "mul" and _only(draft, inner, node) and len(inner.sources()) == 2:
            one, other = inner.inputs["input"]
            for factor, gate in ((one, other), (other, one)):
                if _shifted(draft, draft[gate], inner) == factor:
                    node.kind, node.inputs, node.attrs = "hard-swish", {"input": [factor]}, {}
                    break


def _shifted(draft: Draft, node: Node, user: Node) -> str | None:
    """Return ``x`` if a node is ``relu6(x + 3)`` and nothing but ``user`` sees it."""
    if node.kind != "relu6" or not _only(draft, node, user):
        return None
    added = draft[node.inputs["input"][0]]
    if not _is_affine(draft, added, 1, 3) or not _only(draft, added, node):
        return None
    return added.inputs["input"][0]


def _only(draft: Draft, node: Node, user: Node) -> bool:
    users = [found.name for found in draft.consumers(node.name)]
    return users == [user.name] and node.name not in draft.outputs


def _is_affine(draft: Draft, node: Node, factor: float, offset: float) -> bool:
    """Return whether a node multiplies all channels by ``factor`` and adds ``offset``."""
    if node.kind != "scale":
        return False
    for arg, wanted in (("scale", factor), ("bias", offset)):
        value = draft[node.inputs[arg][0]].value
        if value is None or not np.allclose(value, wanted, rtol=0, atol=TOLERANCE):
            return False
    return True
