# SPDX-License-Identifier: Apache-2.0
"""Who waits for whom: tokens given and taken, paired in order."""

from collections.abc import Sequence

from opendpu_arch.errors import TokenError
from opendpu_arch.isa import Engine, Instruction


def producers(instructions: Sequence[Instruction]) -> list[tuple[int, ...]]:
    """Return, an instruction each, those whose tokens it takes.

    Raises
    ------
    TokenError
        A token is taken that no instruction gives.
    """
    given: dict[tuple[Engine, Engine], list[int]] = {}
    for number, instruction in enumerate(instructions):
        for consumer in instruction.signals():
            given.setdefault((instruction.ENGINE, consumer), []).append(number)
    taken: dict[tuple[Engine, Engine], int] = {}
    found = []
    for number, instruction in enumerate(instructions):
        mine = []
        for producer in instruction.waits_for():
            pair = (producer, instruction.ENGINE)
            count = taken.get(pair, 0)
            if count >= len(given.get(pair, ())):
                raise TokenError(
                    f"instruction {number} ({instruction.mnemonic()}) takes token {count} of "
                    f"{producer.name}, which gives {len(given.get(pair, ()))}"
                )
            mine.append(given[pair][count])
            taken[pair] = count + 1
        found.append(tuple(mine))
    return found
