# SPDX-License-Identifier: Apache-2.0
"""The whole machine: a program is decoded and planned once, then run on any segments."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from opendpu_arch import isa, legal
from opendpu_arch.errors import AddressError, IllegalInstructionError, ProgramError
from opendpu_arch.isa import AluMode
from opendpu_arch.target import Target
from opendpu_sim.ddr import Bounds
from opendpu_sim.model import conv, dwconv, eltwise, load, misc, pool, save
from opendpu_sim.model.memory import Memory
from opendpu_sim.model.schedule import execution_order
from opendpu_sim.model.step import Step
from opendpu_sim.model.walk import Walker

_INIT_OF: dict[type[isa.Instruction], type[isa.Instruction]] = {
    isa.Conv: isa.ConvInit,
    isa.Alu: isa.AluInit,
    isa.Pool: isa.PoolInit,
    isa.DptWise: isa.DwInit,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """A planned program; nothing in it changes when it runs, so threads can share it."""

    target: Target
    instructions: int
    """How many, END included."""
    steps: tuple[Step, ...]
    """What to do, in execution order."""
    bounds: Bounds
    bytes_read: int
    """By LOAD, from DDR."""
    bytes_written: int
    """By SAVE, to DDR."""

    def run(self, segments: Mapping[int, npt.NDArray[np.uint8]], *, check: bool = False) -> Memory:
        """Run to END on ``segments``, which SAVE changes, and return the memory as END left it.

        With ``check``, refuse results that depend on bytes nobody wrote, and instructions that walk
        over a whole bank and into themselves; DDR counts as written.

        Raises
        ------
        AddressError
            A segment is missing or too small; with ``check``, a bank is too small.
        UninitializedReadError
            With ``check``: SAVE meets a byte that depends on one that nobody wrote.
        """
        self.bounds.check(segments)
        memory = Memory(self.target, segments, check=check)
        if not check:
            for step in self.steps:
                step.run(memory)
            return memory
        for step in self.steps:
            _check_spans(step, self.target)
            step.trace(memory)
            step.run(memory)
        return memory


def plan(code: bytes, target: Target, *, schedule_seed: int | None = None) -> Program:
    """Decode, check and plan a program; what comes after END is ignored.

    ``schedule_seed`` picks a random order among those that the tokens allow, instead of the one
    nearest to program order.

    Raises
    ------
    DecodeError
        ``code`` is no machine code.
    ProgramError
        There is no END, the tokens do not work out (DeadlockError, TokenError), or an instruction
        goes over more words than all banks have many times over.
    IllegalInstructionError
        ``target`` refuses an instruction.
    """
    program = _until_end(code)
    walker = Walker(target)
    steps: dict[int, Step] = {}
    inits: dict[type[isa.Instruction], isa.Instruction] = {}
    inputs: list[isa.ElewInit] = []
    for number, i in enumerate(program):
        init: legal.Init = inits.get(_INIT_OF.get(type(i), type(i)))
        if isinstance(i, isa.ElewInit | isa.Elew):
            init = inputs
        reasons = legal.violations(i, target, init=init)
        if reasons:
            raise IllegalInstructionError(
                f"instruction {number} ({i.mnemonic()}): {'; '.join(reasons)}"
            )
        if isinstance(i, isa.ElewInit):
            inputs.append(i)
        elif isinstance(i, isa.ConvInit | isa.AluInit | isa.PoolInit | isa.DwInit):
            inits[type(i)] = i
        elif not isinstance(i, isa.End):
            try:
                steps[number] = plan_step(number, i, init, walker)
            except ProgramError as error:
                raise ProgramError(f"instruction {number} ({i.mnemonic()}): {error}") from None
            if isinstance(i, isa.Elew):
                inputs = []
    order = execution_order(program, schedule_seed)
    accesses = [step.access for step in steps.values() if step.access is not None]
    return Program(
        target=target,
        instructions=len(program),
        steps=tuple(steps[number] for number in order if number in steps),
        bounds=Bounds(accesses),
        bytes_read=sum(a.bytes for a in accesses if a.mnemonic == "LOAD"),
        bytes_written=sum(a.bytes for a in accesses if a.mnemonic == "SAVE"),
    )


def _until_end(code: bytes) -> list[isa.Instruction]:
    program = []
    for instruction in isa.iter_decode(code):
        program.append(instruction)
        if isinstance(instruction, isa.End):
            return program
    raise ProgramError(f"the program has {len(program)} instructions, but no END")


def plan_step(number: int, i: isa.Instruction, init: object, walker: Walker) -> Step:
    """Return the step of an instruction that is no INIT and not END, and that breaks no rule."""
    match i, init:
        case isa.Load(), _:
            return load.plan(number, i, walker)
        case isa.Save(), _:
            return save.plan(number, i, walker)
        case isa.Conv(), isa.ConvInit():
            return conv.plan(number, i, init, walker)
        case isa.Elew(), Sequence():
            return eltwise.plan(number, i, init, walker)
        case isa.Pool(), isa.PoolInit():
            return pool.plan_pool(number, i, init, walker)
        case isa.DptWise(), isa.DwInit():
            return dwconv.plan_dptwise(number, i, init, walker)
        case isa.Alu(), isa.AluInit():
            if init.exec_mode in legal.DEPTHWISE_MODES:
                return dwconv.plan_alu(number, i, init, walker)
            if init.exec_mode in legal.POINTWISE_MODES:
                return misc.plan(number, i, init, walker)
            assert init.exec_mode in (AluMode.AVEPOOL, AluMode.MAXPOOL, AluMode.MAXREDUCE)
            return pool.plan_alu(number, i, init, walker)
    raise AssertionError(f"{i.mnemonic()} passed the rules without its INIT")


def _check_spans(step: Step, target: Target) -> None:
    for field, first, words in step.spans:
        if words > target.bank_depth:
            raise AddressError(
                f"instruction {step.number} ({step.mnemonic}): {field} {first} with {words} words "
                f"runs over itself, because a bank has {target.bank_depth}"
            )
