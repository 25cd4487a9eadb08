# SPDX-License-Identifier: Apache-2.0
"""How many address groups every buffer of a chain gets."""

from collections.abc import Callable, Sequence

from opendpu.compiler.chain.model import Model
from opendpu.compiler.chain.order import Order, order_chain

Fits = Callable[[Sequence[int]], bool]
"""Tells whether pieces of so many words fit the image banks."""


def wanted_words(model: Model, rings: Sequence[int]) -> list[int]:
    """Return the words of every buffer, then of every tile for an epilogue; 0 for none."""
    words = [b.words(ring) for b, ring in zip(model.buffers, rings, strict=True)]
    return words + [stage.tile_words for stage in model.stages]


def find_rings(model: Model, fits: Fits, *, thorough: bool) -> tuple[list[int], Order] | None:
    """Return rings that fit and let the chain run, and its order; none if there are none.

    ``thorough`` tries buffers one by one, else they all get one address group more if that fits.
    """
    rings = list(model.least)

    def room(wanted: Sequence[int]) -> bool:
        return fits(wanted_words(model, wanted))

    while True:
        if not room(rings):
            return None
        order = order_chain(model.stages, model.buffers, rings)
        if order.blocked is None:
            break
        if order.blocked < 0 or rings[order.blocked] >= model.buffers[order.blocked].groups:
            return None
        rings[order.blocked] += 1
    more = [min(r + 1, b.groups) for r, b in zip(rings, model.buffers, strict=True)]
    if more != rings and room(more):
        rings, order = _better(model, rings, order, more)
    if thorough:
        for _ in range(2):
            for number, buffer in enumerate(model.buffers):
                if not buffer.resident and rings[number] < buffer.groups:
                    more = [*rings]
                    more[number] += 1
                    if room(more):
                        rings, order = _better(model, rings, order, more)
    return rings, order


def _better(
    model: Model, rings: list[int], order: Order, more: list[int]
) -> tuple[list[int], Order]:
    tried = order_chain(model.stages, model.buffers, more)
    return (more, tried) if tried.cycles < order.cycles else (rings, order)
