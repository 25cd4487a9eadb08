# SPDX-License-Identifier: Apache-2.0
"""What every random program shares: the loaded part of the banks, and rules of acceptance.

Programs work in one *window* of addresses, the same in every bank of a kind, that LOADs fill with
random bytes first and that SAVEs write out last. It may lie across the end of a bank.
"""

import random

import numpy as np
import numpy.typing as npt

from opendpu_arch import isa, legal, scaled, table
from opendpu_arch.extensions import Extension
from opendpu_arch.target import Target
from opendpu_sim.model.machine import plan_step
from opendpu_sim.model.memory import Index
from opendpu_sim.model.step import Step
from opendpu_sim.model.walk import Walk, Walker
from opendpu_sim.progen.tokens import Touched, link, touched

DATA, RESULT = 0, 1
"""Segments: random bytes that LOADs read, and where SAVEs write."""
PAGE = 4096
SIMPLE = (isa.ConvInit, isa.AluInit, isa.PoolInit, isa.DwInit)


class Builder:
    """Collects instructions; :meth:`add` refuses what would not be a fair test."""

    def __init__(self, target: Target, rng: random.Random) -> None:
        self.target = target
        self.rng = rng
        self.walker = Walker(target)
        self.depth, self.lanes = target.bank_depth, target.channel_parallel
        self.image_words = rng.choice((40, 96, 150))
        self.weight_words = rng.choice((20, 64, 100))
        self.image = self._window(self.image_words)
        self.weights = self._window(self.weight_words)
        self.tables: list[int] = []
        """Tables that are loaded, as instructions name them."""
        self.first_record = 0
        self.records = 0
        """Records of SCALE that are loaded; 0: none, nor terms."""
        self._contents: list[tuple[int, npt.NDArray[np.uint8]]] = []
        self._defined: npt.NDArray[np.bool_] = np.zeros(target.bank_count * self.depth, np.bool_)
        self._program: list[tuple[isa.Instruction, Touched]] = []
        self._inits: dict[type[isa.Instruction], isa.Instruction] = {}
        self._inputs: list[isa.ElewInit] = []
        self._data_size = 4 * PAGE
        self._result_size = rng.randrange(64)

    def _window(self, words: int) -> int:
        """Return the first word of a window: somewhere, at 0, or across the end of the bank."""
        return self.rng.choice(
            (self.rng.randrange(self.depth), 0, self.depth - self.rng.randrange(1, words))
        )

    def address(self, window: int, words: int, span: int, *, bits: int = 12) -> int:
        """Return an address from which ``span`` words lie in a window; high bits may be junk."""
        first = (window + self.rng.randrange(words - span + 1)) % self.depth
        return self.alias(first, bits)

    def alias(self, address: int, bits: int) -> int:
        """Return the address, or one that is the same modulo the depth and fits ``bits`` bits."""
        address %= self.depth
        return address + self.depth * self.rng.choice(
            (0, 0, self.rng.randrange(max(1, (1 << bits) // self.depth)))
        )

    def data(self, size: int) -> int:
        """Return a DDR address in the data segment with ``size`` bytes after it."""
        self._data_size = max(self._data_size, size + PAGE)
        return self.rng.choice(
            (
                self.rng.randrange(self._data_size - size + 1),
                16 * self.rng.randrange((self._data_size - size) // 16 + 1),
                max(0, min(self._data_size - size, PAGE - self.rng.randrange(1, 64))),
            )
        )

    def content(self, content: npt.NDArray[np.uint8]) -> int:
        """Return a DDR address in the data segment where ``content`` will lie."""
        address = self._data_size + self.rng.randrange(32)
        self._data_size = address + content.size
        self._contents.append((address, content))
        return address

    def record_address(self, groups: int, bits: int) -> int:
        """Return the number of a record from which ``groups`` are loaded; high bits may be junk."""
        there = scaled.records(self.depth)
        first = self.first_record + self.rng.randrange(self.records - groups + 1)
        return first % there + there * self.rng.choice(
            (0, 0, self.rng.randrange((1 << bits) // there))
        )

    def result(self, size: int) -> int:
        """Return a DDR address in the result segment for ``size`` bytes that nobody else writes."""
        gap = self.rng.choice((0, 1, self.rng.randrange(40), -self._result_size % PAGE - 3))
        address = self._result_size + max(0, gap)
        self._result_size = address + size
        return address

    def add(self, instruction: isa.Instruction, *, sources: Index | None = None) -> bool:
        """Append an instruction if it is legal and reads defined words only.

        Refused too: an instruction that writes a word twice, or writes what it reads, unless it
        works exactly in place.
        """
        i = instruction
        init: legal.Init = self._inits.get(
            {isa.Conv: isa.ConvInit, isa.Alu: isa.AluInit, isa.Pool: isa.PoolInit,
             isa.DptWise: isa.DwInit}.get(type(i), type(i)))  # fmt: skip
        if isinstance(i, isa.ElewInit | isa.Elew):
            init = self._inputs
        if legal.violations(i, self.target, init=init):
            return False
        touch = Touched()
        if isinstance(i, SIMPLE):
            self._inits[type(i)] = i
        elif isinstance(i, isa.ElewInit):
            self._inputs.append(i)
        elif not isinstance(i, isa.End):
            step = plan_step(len(self._program), i, init, self.walker)
            if any(words > self.depth for _, _, words in step.spans):
                return False
            touch = touched(step)
            if len(set(touch.writes)) < touch.writes.size:
                return False
            for part in self._real_parts(step, touch):
                overlaps = np.isin(part, touch.writes).any()
                if not self._defined[part].all() or (
                    overlaps and not np.array_equal(part, touch.writes)
                ):
                    return False
            self._defined[touch.writes] = True
            if isinstance(i, isa.Elew):
                self._inputs = []
        self._program.append((i, touch))
        return True

    def add_elew(self, inputs: list[isa.ElewInit], elew: isa.Elew) -> bool:
        """Append ELEWINITs and their ELEW, or nothing."""
        before = len(self._program)
        if all(self.add(i) for i in inputs) and self.add(elew):
            return True
        del self._program[before:]
        self._inputs = []
        return False

    def _real_parts(self, step: Step, touch: Touched) -> tuple[Index, ...]:
        """Return the words of every operand that matter: all but padding."""
        walk: Walk | None = getattr(step, "walk", None)
        if walk is None or walk.pads is None:
            return touch.parts
        padding = np.zeros((*walk.source.shape, self.lanes), np.bool_)
        walk.pads.fill(padding, 1, 1)
        return (walk.source[~padding.all(axis=-1)], *touch.parts[1:])

    def fill(self, bank: int, first: int, words: int) -> None:
        """LOAD random bytes to successive words of a bank."""
        size = words * self.lanes
        assert self.add(
            isa.Load(
                bank_id=bank,
                bank_addr=first,
                channel=size,
                jump_read=size,
                jump_write=words,
                reg_id=DATA,
                ddr_addr=self.data(size),
            )
        )

    def fill_images(self) -> None:
        """Fill the window of all image banks."""
        for bank in range(self.target.image_banks):
            self.fill(bank, self.image, self.image_words)

    def fill_weights(self, *, conv: bool = True) -> None:
        """Fill the window of the weight and bias banks; only the depthwise ones if not ``conv``."""
        first = self.target.convw_base if conv else self.target.dwconvw_bank
        for bank in (*range(first, self.target.bias_bank + 1), *self.shift_banks):
            self.fill(bank, self.weights, self.weight_words)

    @property
    def shift_banks(self) -> range:
        """The bank SHIFT, or none."""
        first = self.target.shift_bank
        return range(first, first + (Extension.CHANNEL in self.target.extensions))

    def fill_tables(self) -> None:
        """Fill some slots of TABLE, where the target has it."""
        if Extension.TABLE not in self.target.extensions:
            return
        slots = range(1, table.SLOTS + 1)
        self.tables = sorted(self.rng.sample(slots, self.rng.randrange(1, 5)))
        for slot in self.tables:
            self.fill_table(slot, 0, table.SLOT_WORDS)

    def fill_table(self, slot: int, first: int, words: int) -> None:
        """LOAD random bytes to successive words of a slot: pixels of a word, or longer ones."""
        per_pixel = self.rng.choice([n for n in (1, 1, 2, 4) if words % n == 0])
        size = self.rng.choice((table.WORD_BYTES, self.lanes))
        size = (per_pixel - 1) * self.lanes + size
        address = ((slot - 1) * table.SLOT_WORDS + first) % table.WORDS
        assert self.add(
            isa.Load(
                bank_id=self.target.table_bank,
                bank_addr=address + table.WORDS * self.rng.randrange(8),
                channel=size,
                jump_read=size,
                jump_write=per_pixel,
                length=words // per_pixel,
                broadcast=self.rng.choice((0, 0, 0, 7)),
                const_value=self.rng.randrange(256),
                reg_id=DATA,
                ddr_addr=self.data(words // per_pixel * size),
            )
        )

    def save_images(self) -> None:
        """Write the window of all image banks to DDR."""
        size = self.image_words * self.lanes
        for bank in range(self.target.image_banks):
            assert self.add(
                isa.Save(
                    bank_id=bank,
                    bank_addr=self.image,
                    channel=self.lanes,
                    length=self.image_words,
                    jump_write=self.lanes,
                    reg_id=RESULT,
                    ddr_addr=self.result(size),
                    hp_id=self.rng.randrange(2),
                )
            )

    def finish(self) -> tuple[bytes, dict[int, npt.NDArray[np.uint8]]]:
        """Return the machine code, END and tokens included, and the segments."""
        assert self.add(isa.End())
        sizes = {DATA: self._data_size, RESULT: self._result_size + self.rng.randrange(1, 32)}
        program = link(self._program, self.target, sizes)
        noise = np.random.default_rng(self.rng.getrandbits(32))
        segments = {}
        for reg_id, size in sizes.items():
            content = noise.integers(0, 256, size, np.uint8)
            extreme = noise.random(size) < 0.1
            content[extreme] = noise.choice(
                np.array([0, 1, 127, 128, 129, 255], np.uint8), int(extreme.sum())
            )
            segments[reg_id] = content
        for address, wanted in self._contents:
            segments[DATA][address : address + wanted.size] = wanted
        return isa.encode(program), segments
