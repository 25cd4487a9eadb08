# SPDX-License-Identifier: Apache-2.0
"""Branches that a graph takes unless it is told otherwise: those of layers of Keras in training.

In a graph of TensorFlow 1, Keras' batch normalization and dropout compute one thing in training
and another in inference, between operators ``Switch`` and ``Merge``. Which, a placeholder with a
default says. Pruning looks at what is computed by default.
"""

from collections.abc import Mapping
from typing import Any

from opendpu.frontend.tensorflow.runtime import tf

PASSING = ("Identity", "PlaceholderWithDefault", "StopGradient")
"""What gives its input by default."""


def as_taken(definition: Any) -> Any:
    """Return a ``GraphDef`` without the branches that are not taken by default.

    ``Switch`` and ``Merge`` of others become ``Identity`` under the same name; those whose
    condition depends on the data stay.
    """
    nodes = {node.name: node for node in definition.node}
    switches = {name: taken for name, node in nodes.items() if node.op == "Switch"
                if (taken := _value(nodes, node.input[1])) is not None}  # fmt: skip
    if not switches:
        return definition
    dead = _dead(nodes, {f"{name}:{1 - taken}" for name, taken in switches.items()})
    made = type(definition)()
    made.CopyFrom(definition)
    del made.node[:]
    for name, node in nodes.items():
        if name in dead:
            continue
        kept = made.node.add()
        kept.CopyFrom(node)
        if name in switches:
            _become_identity(kept, node.input[0])
        elif node.op == "Merge" and len(living := _living(node, dead)) == 1:
            _become_identity(kept, living[0])
        inputs = [_renamed(tensor, switches) for tensor in kept.input]
        del kept.input[:]
        kept.input.extend(inputs)
    return made


def _value(nodes: Mapping[str, Any], tensor: str) -> bool | None:
    """Return the value of a condition; none where the data decide."""
    node = nodes[_node(tensor)]
    while node.op in PASSING:
        node = nodes[_node(node.input[0])]
    if node.op != "Const":
        return None
    value = tf.make_ndarray(node.attr["value"].tensor)
    return bool(value) if value.shape == () else None


def _dead(nodes: Mapping[str, Any], dead: set[str]) -> set[str]:
    """Return tensors, ``switch:1``, and nodes that are never computed, of tensors that are not."""
    found, before = set(dead), -1
    while len(found) != before:
        before = len(found)
        for name, node in nodes.items():
            living = _living(node, found)
            if len(living) < len(node.input) and (node.op != "Merge" or not living):
                found.add(name)
    return found


def _living(node: Any, dead: set[str]) -> list[str]:
    """Return the inputs of a node that are computed."""
    return [t for t in node.input if _node(t) not in dead and _numbered(t) not in dead]


def _node(tensor: str) -> str:
    return tensor.removeprefix("^").partition(":")[0]


def _numbered(tensor: str) -> str:
    return tensor if ":" in tensor or tensor.startswith("^") else f"{tensor}:0"


def _renamed(tensor: str, switches: Mapping[str, bool]) -> str:
    """Return what a result of a switch is called now that it has one only."""
    return _node(tensor) if _numbered(tensor).partition(":")[0] in switches else tensor


def _become_identity(node: Any, source: str) -> None:
    """Make a node give one of its inputs."""
    kind = node.attr["T"].type
    node.op = "Identity"
    del node.input[:]
    node.input.append(source)
    for name in list(node.attr):
        del node.attr[name]
    node.attr["T"].type = kind
