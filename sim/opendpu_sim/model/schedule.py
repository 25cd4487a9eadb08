# SPDX-License-Identifier: Apache-2.0
"""Execution order by tokens: four in-order queues that wait for each other.

An instruction runs when, for every other engine in its ``dpdon``, a token from that engine to its
own is there; it takes them, and afterwards gives one to every other engine in its ``dpdby``.
"""

import functools
import random
from collections import deque
from collections.abc import Sequence

from opendpu_arch import asm, isa
from opendpu_arch.errors import DeadlockError, TokenError
from opendpu_arch.isa import Engine


def execution_order(program: Sequence[isa.Instruction], seed: int | None = None) -> list[int]:
    """Return the numbers of the instructions in an order that the tokens allow.

    Of several queues that could go on, the one whose instruction comes first in the program does
    or, with a ``seed``, a random one.

    Raises
    ------
    DeadlockError
        Instructions wait for tokens that nobody will give.
    TokenError
        A counter is not zero at the end.
    """
    queues: dict[Engine, deque[int]] = {engine: deque() for engine in Engine}
    for number, instruction in enumerate(program):
        queues[instruction.ENGINE].append(number)
    tokens = dict.fromkeys(((a, b) for a in Engine for b in Engine), 0)
    waits = [_others(i.ENGINE, i.dpdon) for i in program]
    chance = random.Random(seed) if seed is not None else None
    order: list[int] = []
    while any(queues.values()):
        ready = [
            (queue[0], engine)
            for engine, queue in queues.items()
            if queue and all(tokens[other, engine] for other in waits[queue[0]])
        ]
        if not ready:
            raise DeadlockError(_deadlock(program, queues, tokens))
        number, engine = chance.choice(ready) if chance else min(ready)
        queues[engine].popleft()
        order.append(number)
        for other in waits[number]:
            tokens[other, engine] -= 1
        for other in _others(engine, program[number].dpdby):
            tokens[engine, other] += 1
    left = [f"{a.name} to {b.name}: {count}" for (a, b), count in tokens.items() if count]
    if left:
        raise TokenError(f"tokens left over at END, but must be zero: {', '.join(left)}")
    return order


@functools.cache
def _others(engine: Engine, bits: int) -> tuple[Engine, ...]:
    """Return the engines of a dependency field, without the instruction's own."""
    return tuple(other for other in Engine if bits >> other & 1 and other != engine)


def _deadlock(
    program: Sequence[isa.Instruction],
    queues: dict[Engine, deque[int]],
    tokens: dict[tuple[Engine, Engine], int],
) -> str:
    lines = []
    for engine, queue in queues.items():
        if queue:
            i = program[queue[0]]
            missing = [o.name for o in i.waits_for() if not tokens[o, engine]]
            behind = f" ({len(queue) - 1} behind it)" if len(queue) > 1 else ""
            lines.append(
                f"instruction {queue[0]} waits for a token from {' and '.join(missing)}{behind}: "
                f"{asm.format_instruction(i)}"
            )
    return "deadlock, nobody will give these tokens:\n" + "\n".join(lines)
