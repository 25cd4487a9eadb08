# SPDX-License-Identifier: Apache-2.0
"""Networks whose convolutions have more channels, all zero: multiples of what a machine takes.

The opposite of pruning over the same groups. New channels come behind the old ones of their group;
what reads them has zeros there, so the network computes what it did.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from opendpu.ops.inference import reason_of
from opendpu.optimize.equivalence import other_results
from opendpu.optimize.groups import CONVOLUTIONS, analyze, called
from opendpu.optimize.surgery import axes_of, grown, resize
from opendpu.pruning.structure import Dependencies, Group, Member

Added = Mapping[str, int]
"""New channels by group."""


def expandable(
    model: nn.Module, inputs: Any, multiple: int, excludes: Iterable[str] = ()
) -> tuple[Dependencies, dict[str, int]]:
    """Find what has to be filled up so that convolutions have multiples of channels.

    Groups that cannot are among the ``kept`` of the dependencies, with the reason; that the network
    then computes the same is found out by trying.

    Parameters
    ----------
    model
        Stays as it is.
    inputs
        What it is called with: a tensor, or a list, tuple or dictionary of arguments.
    multiple
        What numbers of output channels are to be divisible by.
    excludes
        Paths of modules whose output channels stay.

    Raises
    ------
    UnsupportedError
        The network cannot be traced, or is in a ``torch.nn.DataParallel``.
    """
    found = analyze(model, inputs, excludes, results_too=True)
    modules = dict(model.named_modules())
    reasons, added = {}, {}
    for name, group in found.groups.items():
        if not any(isinstance(modules.get(path), CONVOLUTIONS) for path in group.producers()):
            continue
        missing = -group.channels % multiple
        reason = _obstacle(group) if missing else ""
        if reason:
            reasons[name] = reason
        elif missing:
            added[name] = missing
    reasons.update(_failing(model, inputs, found, added, list(added)))
    return found.without(reasons), {n: k for n, k in added.items() if n not in reasons}


def expanded(model: nn.Module, dependencies: Dependencies, added: Added) -> nn.Module:
    """Return a copy of a network with new channels, all zero."""
    made = copy.deepcopy(model)
    axes = axes_of(model, _places(dependencies, added))
    state = made.state_dict()
    resize(made, {name: _filled(name, state[name], where) for name, where in axes.items()})
    return made


def _filled(name: str, tensor: torch.Tensor, where: Mapping[int, Sequence[int]]) -> torch.Tensor:
    if name.endswith("running_var"):  # ones, which no precision divides by zero with
        return grown(tensor - 1, where) + 1
    return grown(tensor, where)


def _obstacle(group: Group) -> str:
    """Return why a group cannot be filled up behind its channels; nothing if it can."""
    if group.size > 1:
        return "its channels come in sets"
    for member in group.members:
        if any(not _is_whole(units, group.units) for _, units in _runs(member)):
            return f"{member.path} takes its channels in another order, or not all of them"
    return ""


def _is_whole(units: Sequence[int], count: int) -> bool:
    """Return whether all units of a group are there, in their order and equally often."""
    times = len(units) // count
    return list(units) == [unit for unit in range(count) for _ in range(times)]


def _runs(member: Member) -> list[tuple[int, list[int]]]:
    """Return (last channel, units) of each part of a layer in which a group's channels ascend."""
    runs: list[tuple[int, list[int]]] = []
    for index, unit in zip(member.indices, member.units, strict=True):
        if runs and index == runs[-1][0] + 1 and unit >= runs[-1][1][-1]:
            runs[-1] = (index, [*runs[-1][1], unit])
        else:
            runs.append((index, [unit]))
    return runs


def _places(dependencies: Dependencies, added: Added) -> dict[tuple[str, str], list[int]]:
    """Return where new channels are in layers with all of them, by path and side."""
    behind: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for name, count in added.items():
        group = dependencies.groups[name]
        for member in group.members:
            for last, units in _runs(member):
                more = count * (len(units) // group.units)
                behind.setdefault((member.path, member.side), []).append((last, more))
    places: dict[tuple[str, str], list[int]] = {}
    for key, steps in behind.items():
        steps.sort()
        places[key] = []
        for last, more in steps:
            start = last + 1 + len(places[key])
            places[key].extend(range(start, start + more))
    return places


def _failing(
    model: nn.Module, inputs: Any, dependencies: Dependencies, added: Added, names: Sequence[str]
) -> dict[str, str]:
    """Return the groups with whose new channels the network does something else, and what."""
    reason = _difference(model, inputs, dependencies, {name: added[name] for name in names})
    if not names or not reason:
        return {}
    if len(names) == 1:
        return {names[0]: reason}
    halves = names[: len(names) // 2], names[len(names) // 2 :]
    bad: dict[str, str] = {}
    for half in halves:
        bad |= _failing(model, inputs, dependencies, added, half)
    return bad or dict.fromkeys(names, reason)


def _difference(model: nn.Module, inputs: Any, dependencies: Dependencies, added: Added) -> str:
    """Return how a network with new channels differs; nothing if it computes the same."""
    before = copy.deepcopy(model).eval()
    with torch.no_grad():
        wanted = called(before, inputs)
        try:
            found = called(expanded(before, dependencies, added), inputs)
        except Exception as error:  # whatever the user's code raises
            return f"the network does not run with more of them: {reason_of(error)}"
    expected = tree_leaves(wanted)
    results = [_cut(one, other) for one, other in zip(tree_leaves(found), expected, strict=True)]
    return other_results(results, expected, "with more of them the network computes something else")


def _cut(found: Any, wanted: Any) -> Any:
    """Return a result without the channels by which it was filled up itself."""
    if not isinstance(wanted, torch.Tensor) or found.dim() < 2 or wanted.dim() < 2:
        return found
    return found[:, : wanted.shape[1]]
