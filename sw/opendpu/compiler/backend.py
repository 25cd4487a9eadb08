# SPDX-License-Identifier: Apache-2.0
"""The passes of one DPU part, from its layers to its program, in the order in which they run.

``cascade``, ``residency`` and ``tile`` are the planner: where ``tile`` refuses, the refusal is
turned into one more restriction, and ``cascade`` proposes again.
"""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from opendpu.compiler.boundary import Passed, unwatched
from opendpu.compiler.emitter.emit import emit
from opendpu.compiler.kinds import EMITTERS, TILINGS, cycles_alone
from opendpu.compiler.network import Network
from opendpu.compiler.network.augment import augment
from opendpu.compiler.network.balance import balance
from opendpu.compiler.network.enlarge import enlarge
from opendpu.compiler.network.fuse import fuse
from opendpu.compiler.network.join_resized import join_resized
from opendpu.compiler.network.join_windows import join_windows
from opendpu.compiler.network.phases import read_phases
from opendpu.compiler.network.planar import planar
from opendpu.compiler.network.repeat import repeat
from opendpu.compiler.network.repeat_channels import repeat_channels
from opendpu.compiler.network.rows import fill_rows
from opendpu.compiler.network.scale import scale
from opendpu.compiler.network.sequence import sequence
from opendpu.compiler.network.space_to_depth import space_to_depth
from opendpu.compiler.network.split_channels import split_channels
from opendpu.compiler.network.transpose import transpose
from opendpu.compiler.plan import Plan
from opendpu.compiler.planner.alone import fits_alone
from opendpu.compiler.planner.choose_cascades import choose_cascades, expected_cycles
from opendpu.compiler.planner.memory import allocate_memory
from opendpu.compiler.planner.proposal import Proposal, Refusal, Residency, Tiled
from opendpu.compiler.planner.residency import allocate_banks
from opendpu.compiler.planner.revise import revise
from opendpu.compiler.planner.tile import tile
from opendpu.compiler.program import CommandStream, Program
from opendpu.compiler.schedule import schedule
from opendpu_arch.target import Target


@dataclasses.dataclass(frozen=True)
class BackendPass:
    """A named step from one value to the next."""

    name: str
    text: str
    takes: str
    """Kind of value."""
    makes: str
    run: Callable[[Any, Target], Any]
    """From the result of the pass before, or from a revision, to its own result or a refusal."""


def _space_to_depth(network: Network, target: Target) -> Network:
    return space_to_depth(network, target, cycles_alone)


def _enlarge(network: Network, target: Target) -> Network:
    return enlarge(network, target, cycles_alone)


def _split_channels(network: Network, target: Target) -> Network:
    return split_channels(network, target, _expected_cycles)


def _expected_cycles(network: Network, target: Target) -> int:
    """Return the cycles that the planner expects of what ``split_channels`` may make."""
    names = [one.name for one in BACKEND_PASSES]
    value: Any = network
    for one in BACKEND_PASSES[names.index("split_channels") + 1 : names.index(REVISED)]:
        value = one.run(value, target)
    return expected_cycles(value, target)


def _tile(residency: Residency, target: Target) -> Tiled | Refusal:
    return tile(residency, target, TILINGS)


def _emit(plan: Plan, target: Target) -> CommandStream:
    return emit(plan, target, EMITTERS)


BACKEND_PASSES = (
    BackendPass(
        "phases", "pointwise convolutions read the phases of a transposed one, not the whole map",
        "network", "network", read_phases,
    ),
    BackendPass(
        "enlarge", "convolutions read the pixels that were put into channels, with larger kernels",
        "network", "network", _enlarge,
    ),
    BackendPass(
        "augment", "kernel columns of first layers become channels, where LOAD can do that",
        "network", "network", augment,
    ),
    BackendPass(
        "split_channels", "convolutions whose channels are split make each part on its own",
        "network", "network", _split_channels,
    ),
    BackendPass(
        "sequence", "layers in depth-first order: a short cut right before its join",
        "network", "network", sequence,
    ),
    BackendPass(
        "transpose", "low maps are computed with their columns as rows, kernels too",
        "network", "network", transpose,
    ),
    BackendPass(
        "rows", "low maps get as many rows as the array has, where pixels do not meet each other",
        "network", "network", fill_rows,
    ),
    BackendPass(
        "scale", "products with a pixel are depthwise convolutions whose weights it is",
        "network", "network", scale,
    ),
    BackendPass(
        "balance", "depthwise convolutions go to the array where the misc engine has more to do",
        "network", "network", balance,
    ),
    BackendPass(
        "fuse", "convolutions take the element-wise operation behind them as epilogue",
        "network", "network", fuse,
    ),
    BackendPass(
        "join_resized", "resized inputs of a concatenation are joined where they are small",
        "network", "network", join_resized,
    ),
    BackendPass(
        "planar", "concatenated channels lie in DDR plane by plane, where that makes longer bursts",
        "network", "network", planar,
    ),
    BackendPass(
        "repeat", "pixels that a resize repeats are repeated by LOAD, for whoever reads them",
        "network", "network", repeat,
    ),
    BackendPass(
        "space_to_depth", "pixels become channels of one, where blocks of output channels are full",
        "network", "network", _space_to_depth,
    ),
    BackendPass(
        "repeat_channels", "channels are made several times, where resizes then take fewer steps",
        "network", "network", repeat_channels,
    ),
    BackendPass(
        "join_windows", "neighbouring windows of a first layer are one pixel that LOAD brings",
        "network", "network", join_windows,
    ),
    BackendPass(
        "cascade", "which consecutive layers run together, stripes of rows of each in turn",
        "network", "proposal", choose_cascades,
    ),
    BackendPass(
        "residency", "which feature maps stay on chip whole, and in which banks",
        "proposal", "residency", allocate_banks,
    ),
    BackendPass(
        "tile", "layers get loops and circular buffers that fit beside them",
        "residency", "tiled network", _tile,
    ),
    BackendPass(
        "allocate", "feature maps and constants get places in DDR",
        "tiled network", "plan", allocate_memory,
    ),
    BackendPass("emit", "layers become instructions, in sequential order",
                "plan", "commands", _emit),
    BackendPass("schedule", "instructions get tokens and an order",
                "commands", "program", schedule),
)  # fmt: skip
"""Every pass, in order; what runs is this list."""
REVISED = "cascade"
"""The pass that a revision goes back to."""


Took = Callable[[str, float], None]
"""Told the name of a pass and the seconds that it took."""
PROVISIONAL = (Proposal, Residency)
"""Values that hold until a later pass refuses."""


def _untimed(name: str, seconds: float) -> None:
    """Take no notice of how long a pass took."""


def build(
    network: Network, target: Target, passed: Passed = unwatched, took: Took = _untimed
) -> Program:
    """Return the program of ``network`` for ``target``; ``passed`` gets what each pass made.

    ``took`` is told how many seconds each pass took, as often as it runs.

    What the planner proposes is passed on when no later pass can refuse it any more.

    Raises
    ------
    BankCapacityError
        A layer does not fit even when nothing else is on chip.
    """
    names = [one.name for one in BACKEND_PASSES]
    provisional: dict[str, object] = {}
    value: Any = network
    at = 0
    while at < len(BACKEND_PASSES):
        one = BACKEND_PASSES[at]
        start = time.perf_counter()
        made = one.run(value, target)
        took(one.name, time.perf_counter() - start)
        if isinstance(made, Refusal):  # every revision rules out more, so this comes to an end
            value, at = revise(made, target), names.index(REVISED)
            continue
        provisional[one.name] = value = made
        at += 1
        if not isinstance(made, PROVISIONAL):
            for name, result in provisional.items():
                passed(name, result)
            provisional = {}
    assert isinstance(value, Program)
    return value


def check_capacity(network: Network, target: Target) -> None:
    """Find out, without planning where that is enough, whether every layer has room on chip.

    Raises
    ------
    BankCapacityError
        One that :func:`build` would raise.
    """
    value: Any = network
    for one in BACKEND_PASSES:
        if one.name == REVISED:
            break
        value = one.run(value, target)
    if not fits_alone(value, target, TILINGS):
        build(network, target)  # what stays on chip beside a layer may save it the room it lacks
