# SPDX-License-Identifier: Apache-2.0
"""Which channels of a Keras model are cut together.

Every channel that a layer makes gets a number, and numbers go with the tensors: through what works
on each channel alone, side by side through concatenations, repeated through flattening. Where
channels are added or multiplied, their numbers become one. What is no such operator keeps the
channels that it reads.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from opendpu.ir import Array
from opendpu.pruning import Dependencies, Group, Member
from tf_nndct.channels import Channels
from tf_nndct.layers import number
from tf_nndct.network import Network

Channel = tuple[str, int] | None
"""Group and unit that a channel belongs to; nothing where it stays."""


Removed = Mapping[str, Sequence[int]]
"""Units by group."""


@dataclasses.dataclass(frozen=True)
class Slice:
    """Channels along an axis of a layer's weight.

    Parameters
    ----------
    path, weight, axis
        The layer, the attribute that holds the weight, and the axis.
    side
        Whether they are channels that the layer makes, or that it reads.
    channels
        One each index.
    """

    path: str
    weight: str
    axis: int
    side: str
    channels: tuple[Channel, ...]


@dataclasses.dataclass(frozen=True)
class Work:
    """Multiply-accumulates of a call: ``each`` for every pair of channels read and made."""

    path: str
    each: int
    made: tuple[Channel, ...]
    read: tuple[Channel, ...] | None
    """Nothing where each channel is made out of one."""


@dataclasses.dataclass(frozen=True)
class Structure:
    """What depends on what in a model.

    Parameters
    ----------
    dependencies
        Groups, and why other layers stay.
    slices
        Of all weights.
    work
        Of all calls.
    sizes
        By the path of a layer whose configuration says how many channels it makes, these.
    """

    dependencies: Dependencies
    slices: tuple[Slice, ...]
    work: tuple[Work, ...]
    sizes: dict[str, tuple[Channel, ...]]


def gone(channels: Sequence[Channel], removed: Removed) -> list[int]:
    """Return the indices of channels that are removed."""
    units = {name: set(found) for name, found in removed.items()}
    return [
        index for index, channel in enumerate(channels)
        if channel is not None and channel[1] in units.get(channel[0], ())
    ]  # fmt: skip


def analyze(network: Network, excludes: Iterable[str] = ()) -> Structure:
    """Find the groups of a model.

    Parameters
    ----------
    network
        The model.
    excludes
        Paths of layers whose channels stay.

    Raises
    ------
    UnsupportedError
        A layer has its channels first.
    """
    return structure_of(_numbered(network, excludes))


def structure_of(a: Channels) -> Structure:
    """Return the groups of numbered channels: what layers have in common is one group."""
    groups: dict[str, Group] = {}
    kept: dict[str, str] = {}
    channels: dict[int, Channel] = {}
    for members, roots in _alike(a).items():
        reasons = [a.pinned[root] for root in roots if root in a.pinned]
        if reasons or len(roots) < 2:
            kept |= dict.fromkeys(members, reasons[0] if reasons else "it has one channel")
            continue
        name = next(
            (path for path in members if path not in groups), f"{members[0]}, part {len(groups)}"
        )
        channels |= {root: (name, unit) for unit, root in enumerate(roots)}
        mine = set(roots)
        counted = sum(a.root(int(number)) in mine for number in a.made[members[0]])
        groups[name] = Group(name, len(roots), max(counted // len(roots), 1), ())

    kept = {path: reason for path, reason in kept.items() if path not in groups}

    def named(ids: Array) -> tuple[Channel, ...]:
        return tuple(channels.get(a.root(int(number))) for number in ids)

    slices = tuple(
        Slice(path, weight, axis, side, named(ids)) for path, weight, axis, side, ids in a.slices
    )
    groups = {
        name: dataclasses.replace(
            group, members=_members(name, slices),
            depthwise=any(s.path in a.depthwise and (name, 0) in s.channels for s in slices),
        ) for name, group in groups.items()
    }  # fmt: skip
    work = tuple(
        Work(path, each, named(made), None if read is None else named(read))
        for path, each, made, read in a.work
    )
    return Structure(
        Dependencies(groups, kept), slices, work,
        {path: named(ids) for path, ids in a.sizes.items()},
    )  # fmt: skip


def _alike(a: Channels) -> dict[tuple[str, ...], list[int]]:
    """Return channels by the layers that make them, those that stay apart from the others.

    Channels of one group are then worth as much and cost as much as each other: behind a
    concatenation, what one layer made is no group with what another one made.
    """
    makers: dict[int, dict[str, None]] = {}
    for path, ids in a.made.items():
        for root in sorted({a.root(int(one)) for one in ids}):
            makers.setdefault(root, {})[path] = None
    found: dict[tuple[tuple[str, ...], bool], list[int]] = {}
    for root, paths in makers.items():
        found.setdefault((tuple(paths), root in a.pinned), []).append(root)
    result: dict[tuple[str, ...], list[int]] = {}
    for (members, pinned), roots in found.items():
        if not pinned or members not in result:
            result[members] = sorted(roots)
    return result


def _members(name: str, slices: Iterable[Slice]) -> tuple[Member, ...]:
    """Return what is cut with a group, one member a side of a layer."""
    found: dict[tuple[str, str], Member] = {}
    for item in slices:
        pairs = [
            (index, channel[1]) for index, channel in enumerate(item.channels)
            if channel is not None and channel[0] == name
        ]  # fmt: skip
        if pairs:
            indices, units = zip(*pairs, strict=True)
            found.setdefault((item.path, item.side), Member(item.path, item.side, indices, units))
    return tuple(found.values())


def _numbered(network: Network, excludes: Iterable[str]) -> Channels:
    """Return the channels of a model."""
    found, excluded = Channels(), set(excludes)
    ends: dict[str, list[Array]] = {}
    for tensor in network.inputs:
        found.ids[tensor] = found.stay(network.shapes[tensor][-1], "an input of the network")
    for call in network.calls:
        before = len(found.slices)
        made = number(found, call)
        found.ids |= dict.fromkeys(call.outputs, made)
        now = [*(found.ids[tensor] for tensor in call.inputs), made]
        if call.path in ends:  # a layer that is shared: its channels are the same in every call
            del found.slices[before:]
            for first, second in zip(ends[call.path], now, strict=True):
                found.join(first, second)
        ends.setdefault(call.path, now)
        if call.path in excluded:
            found.pin(made, "it is excluded")
    for tensor in network.outputs:
        found.pin(found.ids[tensor], "an output of the network")
    return found
