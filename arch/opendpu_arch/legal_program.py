# SPDX-License-Identifier: Apache-2.0
"""The rules of :mod:`opendpu_arch.legal` for all instructions of a program at once.

Instructions of one kind that agree in every field that some rule reads, of their own and of what
set them up, are legal together; one of them is looked at.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from opendpu_arch import isa
from opendpu_arch.bits import Record
from opendpu_arch.columns import Columns, Int64Array
from opendpu_arch.legal import BY_KIND, Init, violations
from opendpu_arch.target import Target

INITS: dict[type[Record], type[Record]] = {
    isa.Conv: isa.ConvInit, isa.Alu: isa.AluInit, isa.Pool: isa.PoolInit, isa.DptWise: isa.DwInit,
}  # fmt: skip
"""What sets up each kind of instruction."""
INPUTS = 4
"""ELEWINITs that an ELEW can have; with more it is refused, whatever is in them."""
NOTHING = -1
"""Stands for a field of what is not there."""


def first_violation(columns: Columns, target: Target) -> tuple[int, list[str]] | None:
    """Return number and messages of the first instruction that ``target`` refuses, if it does.

    ``columns`` are those of a program, in the order in which it runs.
    """
    refused = []
    for kind, rules in BY_KIND.items():
        numbers = columns.numbers.get(kind)
        if numbers is None or not rules:
            continue
        of_init = {name for rule in rules for name in rule.of_init}
        keys, init_of = _set_up(columns, kind, of_init)
        own = {name for rule in rules for name in rule.reads}
        keys += [columns.column(kind, name) for name in _fields(kind, own)]
        _, firsts = np.unique(np.stack(keys), axis=1, return_index=True)
        for number, first in zip(numbers[firsts].tolist(), firsts.tolist(), strict=True):
            instruction: Any = columns.records[number]
            if found := violations(instruction, target, init=init_of(first)):
                refused.append((number, found))
    return min(refused, default=None)


def _fields(kind: type[Record], names: set[str]) -> list[str]:
    """Return those of ``names`` that a kind of instruction has."""
    return [field.name for field in kind.bit_fields() if field.name in names]


def _set_up(
    columns: Columns, kind: type[Record], fields: set[str]
) -> tuple[list[Int64Array], Callable[[int], Init]]:
    """Return columns of what set up each instruction of a kind, and what did, by place in them."""
    if kind in (isa.Elew, isa.ElewInit):
        return _inputs(columns, kind, fields)
    if kind not in INITS:
        return [], lambda place: None
    init = INITS[kind]
    inits = columns.numbers.get(init, np.empty(0, np.int64))
    last = np.searchsorted(inits, columns.numbers[kind]) - 1
    found: list[Int64Array] = [np.where(last < 0, NOTHING, 0)]
    for name in _fields(init, fields):
        values = np.append(columns.column(init, name), NOTHING)  # at -1 too
        found.append(values[last])

    def init_of(place: int) -> Any:
        return columns.records[inits[last[place]]] if last[place] >= 0 else None

    return found, init_of


def _inputs(
    columns: Columns, kind: type[Record], fields: set[str]
) -> tuple[list[Int64Array], Callable[[int], Init]]:
    """Return columns of the ELEWINITs since the last ELEW, and these, for either kind."""
    numbers = columns.numbers[kind]
    elews, inits = (columns.numbers.get(k, np.empty(0, np.int64)) for k in (isa.Elew, isa.ElewInit))
    before = np.append(elews, NOTHING)[np.searchsorted(elews, numbers) - 1]
    first, end = np.searchsorted(inits, before), np.searchsorted(inits, numbers)
    found = [end - first]
    for name in _fields(isa.ElewInit, fields):
        values = np.append(columns.column(isa.ElewInit, name), NOTHING)
        for place in range(INPUTS):
            found.append(values[np.where(first + place < end, first + place, NOTHING)])

    def inputs_of(place: int) -> Any:
        return [columns.records[n] for n in inits[first[place] : end[place]].tolist()]

    return found, inputs_of
