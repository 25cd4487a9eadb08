# SPDX-License-Identifier: Apache-2.0
"""How many address groups the circular buffers of a cascade get."""

from collections.abc import Callable, Sequence

from opendpu.compiler.planner.cascade.list_schedule import IssueOrder, list_schedule
from opendpu.compiler.planner.cascade.model import CascadeModel

Fits = Callable[[Sequence[int]], bool]
"""Tells whether pieces of so many words fit the image banks."""
Sizes = tuple[list[int], IssueOrder]
"""Address groups of every buffer, and the order of the stripes that they allow."""


def buffer_words(model: CascadeModel, capacities: Sequence[int]) -> list[int]:
    """Return the words of every buffer, then of every tile for an epilogue; 0 for none."""
    words = [b.words(capacity) for b, capacity in zip(model.buffers, capacities, strict=True)]
    return words + [stage.tile_words for stage in model.stages]


def size_buffers(model: CascadeModel, fits: Fits) -> Sizes | None:
    """Return capacities that fit and let the cascade run, and an estimate of its order, if any do.

    They are the least ones, or one address group more of all buffers, where that fits and helps.
    """
    found = _smallest(model, fits)
    if found is None:
        return None
    capacities, order = found
    more = [min(c + 1, b.groups) for c, b in zip(capacities, model.buffers, strict=True)]
    if more != capacities and fits(buffer_words(model, more)):
        capacities, order = _better(model, capacities, order, more)
    return None if order.blocked is not None else (capacities, order)


def grow_buffers(model: CascadeModel, fits: Fits, sizes: Sizes) -> Sizes:
    """Return larger capacities, buffer by buffer, where that fits and helps."""
    for _ in range(2):
        sizes = _grow_each(model, fits, *sizes)
    return sizes


def whole_order(model: CascadeModel, sizes: Sizes) -> Sizes:
    """Return the same capacities with the order of all stripes."""
    capacities, order = sizes
    if order.whole:
        return sizes
    return capacities, list_schedule(model.stages, model.buffers, capacities)


def _smallest(model: CascadeModel, fits: Fits) -> Sizes | None:
    """Return the smallest capacities with which some order exists: what blocks it grows."""
    capacities = list(model.min_capacities)
    while fits(buffer_words(model, capacities)):
        order = model.estimate(capacities)
        if order.blocked is None:
            return capacities, order
        if order.blocked < 0 or capacities[order.blocked] >= model.buffers[order.blocked].groups:
            return None
        capacities[order.blocked] += 1
    return None


def _grow_each(model: CascadeModel, fits: Fits, capacities: list[int], order: IssueOrder) -> Sizes:
    """Give every buffer one address group more where that saves cycles."""
    for number, buffer in enumerate(model.buffers):
        if not buffer.resident and capacities[number] < buffer.groups:
            more = [*capacities]
            more[number] += 1
            if fits(buffer_words(model, more)):
                capacities, order = _better(model, capacities, order, more)
    return capacities, order


def _better(
    model: CascadeModel, capacities: list[int], order: IssueOrder, more: list[int]
) -> Sizes:
    tried = model.estimate(more)
    return (more, tried) if tried.cycles < order.cycles else (capacities, order)
