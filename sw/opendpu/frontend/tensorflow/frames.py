# SPDX-License-Identifier: Apache-2.0
"""Loops of a GraphDef: what lies between the ``Enter`` and ``Exit`` nodes of a frame.

Each state of a loop is a ``Merge`` of what enters and what the last round left; a ``Switch`` with
the ``LoopCond`` sends it into the next round or to an ``Exit``. Frozen graphs of TensorFlow 1 have
their loops so, and TensorFlow 2 lowers ``While`` to the same nodes when it freezes a function.
"""

import dataclasses
from collections.abc import Iterable, Mapping

from opendpu.frontend.tensorflow.graphdef import Node, split
from opendpu_arch.errors import ModelFormatError

CONSTANT = "is_constant"
"""Attribute of an ``Enter`` whose value is that of every round."""


@dataclasses.dataclass(frozen=True)
class State:
    """One state of a loop, as names of nodes and references to results."""

    enter: str
    merge: str
    switch: str
    following: str
    """What the next round begins with."""


@dataclasses.dataclass(frozen=True)
class Frame:
    """A loop."""

    name: str
    condition: str
    states: tuple[State, ...]
    constants: tuple[str, ...]
    """``Enter`` nodes of what does not change."""
    exits: Mapping[str, int]
    """Number of the state whose last value it is, by ``Exit``."""
    outside: tuple[str, ...]
    """What has to be known before the loop begins."""


def frames_of(nodes: Mapping[str, Node], label: str) -> dict[str, Frame]:
    """Return the loop that each ``Exit`` belongs to.

    Raises
    ------
    ModelFormatError
        The nodes of a loop are not connected as TensorFlow does it.
    """
    exits: dict[str, list[Node]] = {}
    for node in nodes.values():
        if node.op in ("Exit", "RefExit"):
            exits.setdefault(split(node.inputs[0])[0], []).append(node)
    if not exits:
        return {}
    inside: dict[str, list[Node]] = {}
    for node in nodes.values():
        if node.op in ("Enter", "RefEnter"):
            inside.setdefault(str(node.attr("frame_name")), []).append(node)
    switches = {split(n.inputs[0])[0]: n for n in nodes.values() if n.op in ("Switch", "RefSwitch")}
    merges = {split(n.inputs[0])[0]: n for n in nodes.values() if n.op in ("Merge", "RefMerge")}
    found: dict[str, Frame] = {}
    for name, enters in inside.items():
        try:
            frame = _frame(name, nodes, enters, merges, switches, exits)
        except (KeyError, IndexError, ValueError):
            raise ModelFormatError(f"{label}: the nodes of loop {name!r} are incomplete") from None
        found.update(dict.fromkeys(frame.exits, frame))
    return found


def _frame(
    name: str,
    nodes: Mapping[str, Node],
    enters: Iterable[Node],
    merges: Mapping[str, Node],
    switches: Mapping[str, Node],
    exits: Mapping[str, list[Node]],
) -> Frame:
    """Return the loop of some ``Enter`` nodes; others by the node that their first input is of."""
    states, constants, conditions = [], [], set()
    for enter in enters:
        if enter.attr(CONSTANT) or enter.name not in merges:
            constants.append(enter.name)
            continue
        merge = merges[enter.name]
        again = nodes[split(merge.inputs[1])[0]]
        switch = switches.get(merge.name)
        if switch is not None:
            conditions.add(switch.inputs[1])
        states.append(
            State(enter.name, merge.name, "" if switch is None else switch.name, again.inputs[0])
        )
    (gate,) = conditions
    last = {
        node.name: number
        for number, state in enumerate(states) for node in exits.get(state.switch, ())
    }  # fmt: skip
    outside = tuple(enter.inputs[0] for enter in enters)
    condition = nodes[split(gate)[0]].inputs[0]
    return Frame(name, condition, tuple(states), tuple(constants), last, outside)
