# SPDX-License-Identifier: Apache-2.0
"""Channels of a Keras model by number: which are the same, and which stay."""

from typing import Any

import numpy as np

from opendpu.ir import Array
from opendpu.pruning import OUT
from tf_nndct.network import Call


class Channels:
    """The channels of a model, numbered call by call.

    ``ids`` has the numbers of a tensor's channels; ``slices`` where they are in weights (layer,
    weight, axis, side, numbers); ``work`` the multiply-accumulates of calls (layer, how many for
    every pair, numbers of what is made and of what is read); ``made`` and ``sizes`` the numbers of
    what layers make, and of what their configuration counts.
    """

    def __init__(self) -> None:
        self.ids: dict[int, Array] = {}
        self.slices: list[tuple[str, str, int, str, Array]] = []
        self.work: list[tuple[str, int, Array, Array | None]] = []
        self.sizes: dict[str, Array] = {}
        self.made: dict[str, Array] = {}
        self.depthwise: set[str] = set()
        self.pinned: dict[int, str] = {}
        self._parent: list[int] = []

    def fresh(self, count: int) -> Array:
        """Return numbers of new channels."""
        first = len(self._parent)
        self._parent.extend(range(first, first + count))
        return np.arange(first, first + count)

    def stay(self, count: Any, reason: str) -> Array:
        """Return numbers of new channels that stay."""
        found = self.fresh(int(count or 1))
        self.pin(found, reason)
        return found

    def pin(self, ids: Array, reason: str) -> None:
        """Let channels stay."""
        for number in ids:
            self.pinned.setdefault(self.root(int(number)), reason)

    def root(self, number: int) -> int:
        """Return the number that stands for a channel."""
        while self._parent[number] != number:
            self._parent[number] = self._parent[self._parent[number]]
            number = self._parent[number]
        return number

    def join(self, first: Array, second: Array) -> None:
        """Let channels be the same, in pairs."""
        for left, right in zip(first, second, strict=True):
            a, b = self.root(int(left)), self.root(int(right))
            if a == b:
                continue
            low, high = min(a, b), max(a, b)
            self._parent[high] = low
            if high in self.pinned:
                self.pinned.setdefault(low, self.pinned.pop(high))

    def weigh(self, call: Call, weight: str, axis: int, side: str, ids: Array) -> None:
        """Note the channels along an axis of a weight, if the layer has that weight."""
        if getattr(call.layer, weight, None) is not None:
            self.slices.append((call.path, weight, axis, side, ids))

    def produce(self, call: Call, count: int) -> Array:
        """Return the channels that a layer with weights makes."""
        made = self.fresh(count)
        self.apart(call, made)
        self.made.setdefault(call.path, made)
        self.sizes[call.path] = made
        self.weigh(call, "bias", 0, OUT, made)
        return made

    def apart(self, call: Call, ids: Array) -> None:
        """Let channels stay that a softmax compares."""
        if "softmax" in getattr(getattr(call.layer, "activation", None), "__name__", ""):
            self.pin(ids, f"{call.path} compares channels")
