# SPDX-License-Identifier: Apache-2.0
"""Units of a partition: single ops, or all ops that a plug-in has taken as one."""

import dataclasses
from collections.abc import Collection, Mapping

from opendpu.compiler.fixed import CONSTANT, USER
from opendpu.ir import Graph
from opendpu_arch.errors import PluginError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unit:
    """Ops that stay together."""

    names: tuple[str, ...]
    claim: int | None
    needs: tuple[int, ...]
    """Units that have to run before, by number."""


def units_of(graph: Graph, claims: Mapping[str, int]) -> list[Unit]:
    """Return the units of a graph, every unit after those it needs; ``claims`` by op.

    Raises
    ------
    PluginError
        Ops that a plug-in has taken need each other through ops that it has not.
    """
    members: dict[str | int, list[str]] = {}
    owner: dict[str, str | int] = {}
    for node in graph:
        if node.kind not in (*USER, *CONSTANT):
            owner[node.name] = claims.get(node.name, node.name)
            members.setdefault(owner[node.name], []).append(node.name)
    needs = {
        key: {owner[s] for n in names for s in graph[n].sources() if s in owner and owner[s] != key}
        for key, names in members.items()
    }
    place: dict[str | int, int] = {}
    units: list[Unit] = []
    waiting = list(members)
    while waiting:
        later = []
        for key in waiting:
            if not needs[key] <= place.keys():
                later.append(key)
                continue
            place[key] = len(units)
            units.append(
                Unit(
                    names=tuple(members[key]), claim=key if isinstance(key, int) else None,
                    needs=tuple(sorted(place[k] for k in needs[key])),
                )
            )  # fmt: skip
        if len(later) == len(waiting):
            names = [n for key in later if isinstance(key, int) for n in members[key]]
            raise PluginError(
                f"ops taken by plug-ins need each other through ops that are not: {names}"
            )
        waiting = later
    return units


def levels_of(units: list[Unit], for_dpu: Collection[str]) -> list[int]:
    """Return the number of the part of every unit: odd ones are for the DPU.

    A part only needs parts with lower numbers, so that parts never wait for each other in a ring.
    A unit of the DPU gets the least number that has as many DPU parts before it as some path to it
    has, so that there are never more of them than such a path needs.
    """
    levels: list[int] = []
    for unit in units:
        parity = 1 if unit.names[0] in for_dpu else 0
        least = max((levels[n] for n in unit.needs), default=0)
        levels.append(least if least % 2 == parity else least + 1)
    return levels


def turns_of(units: list[Unit], levels: list[int]) -> list[int]:
    """Return when a unit has its turn among those of its level: the CPU's, then the plug-ins'."""
    turns: list[int] = []
    for number, unit in enumerate(units):
        turn = 0
        for need in unit.needs:
            if levels[need] == levels[number]:
                turn = max(turn, turns[need] + (units[need].claim is not None))
        turns.append(turn)
    return turns
