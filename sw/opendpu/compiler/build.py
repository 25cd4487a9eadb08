# SPDX-License-Identifier: Apache-2.0
"""From a network to a program: augment, allocate, tile, emit, schedule."""

from collections.abc import Sequence

from opendpu.compiler.allocate import allocate_constants, allocate_memory
from opendpu.compiler.augment import augment
from opendpu.compiler.boundary import Passed, unwatched
from opendpu.compiler.chain.choose import Choice, Prices, choose_chains, used_up
from opendpu.compiler.emit import emit
from opendpu.compiler.fuse import fuse
from opendpu.compiler.lifetime import alive
from opendpu.compiler.plan import WEIGHTS_REG, Network, Plan, Program, Span
from opendpu.compiler.residency import allocate_banks
from opendpu.compiler.schedule import schedule
from opendpu.compiler.sequence import sequence
from opendpu.compiler.tile import ChainError, NoRoomError, tile
from opendpu_arch.target import Target


def plan_network(network: Network, target: Target) -> Plan:
    """Return ``network`` with every decision made.

    Feature maps stay on chip where they can; while some layer finds no room, the largest one that
    is in its way goes to DDR.

    Raises
    ------
    NoRoomError
        A layer does not fit even when the banks are empty.
    """
    spilled: set[str] = set()
    rejected: set[Span] = set()
    prices = Prices(network, target, spilled)
    while True:
        choices = choose_chains(prices, rejected)
        banks = allocate_banks(network, target, spilled, choices)
        try:
            layers, chains = tile(network, target, banks, choices)
        except ChainError as error:
            rejected.add(error.span)
        except NoRoomError as error:
            in_the_way = alive(banks.spans, error.layer)
            if not in_the_way:
                raise
            spilled.add(max(in_the_way, key=lambda name: (banks.regions[name].words, name)))
            prices = Prices(network, target, spilled)
        else:
            break
    memory, segment_bytes = allocate_memory(
        network, banks, [choice.span for choice in choices], _inside(network, choices)
    )
    constants, blob = allocate_constants(network)
    return Plan(
        network=network,
        layers=layers,
        chains=chains,
        memory=memory,
        constants=constants,
        segment_bytes={WEIGHTS_REG: len(blob), **segment_bytes},
        blob=blob,
    )


def _inside(network: Network, choices: Sequence[Choice]) -> set[str]:
    """Return the feature maps that never leave a chain."""
    held = {alias.holder for alias in network.aliases.values()} | network.aliases.keys()
    return used_up(network, choices) - held - set(network.outputs)


def build(network: Network, target: Target, passed: Passed = unwatched) -> Program:
    """Return the program of ``network`` for ``target``; ``passed`` gets what each pass made."""
    network = fuse(sequence(augment(network, target)))
    passed("fuse", network)
    plan = plan_network(network, target)
    passed("tile", plan)
    passed("allocate", plan)
    steps = emit(plan, target)
    passed("emit", steps)
    program = Program(plan=plan, schedule=schedule(steps, target))
    passed("schedule", program)
    return program
