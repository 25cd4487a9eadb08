# SPDX-License-Identifier: Apache-2.0
"""What a planned instruction is: everything that does not depend on data worked out beforehand."""

from typing import Protocol

from opendpu_sim.ddr import Access
from opendpu_sim.model.memory import Memory


class Step(Protocol):
    """One instruction, ready to run on any memory of its target, any number of times."""

    @property
    def number(self) -> int:
        """Position in the program."""
        ...

    @property
    def mnemonic(self) -> str:
        """Name of the instruction."""
        ...

    @property
    def spans(self) -> tuple[tuple[str, int, int], ...]:
        """(address field, first word, words) of what it walks over inside one bank."""
        ...

    @property
    def access(self) -> Access | None:
        """What it reads or writes in DDR."""
        ...

    def run(self, memory: Memory) -> None:
        """Do what the instruction does."""
        ...

    def trace(self, memory: Memory) -> None:
        """Work out which written bytes depend on bytes that nobody wrote; runs before `run`."""
        ...
