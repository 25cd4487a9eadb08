# SPDX-License-Identifier: Apache-2.0
"""Banks on a cocotb bench: they answer the memory ports of an engine, with random stalls."""

import collections
import random
from collections.abc import Callable
from typing import Any

import cocotb
import numpy as np
import numpy.typing as npt
from cocotb.triggers import RisingEdge

from opendpu_arch import latency
from opendpu_arch.target import Target
from opendpu_sim.tb.clock import stalls


class BankResponder:
    """All banks of a target as one array, and the ports of the DUT that use them.

    Parameters
    ----------
    words
        Bank words, int8, shape (banks * depth, CP); changed by the DUT.
    """

    def __init__(
        self, dut: Any, target: Target, words: npt.NDArray[np.int8], rng: random.Random
    ) -> None:
        self._dut = dut
        self._target = target
        self.words = words
        self._rng = rng
        self._bits = (target.bank_depth - 1).bit_length()
        self.writes = 0
        """Words written so far."""

    def attach(self, kind: str, prefix: str) -> None:
        """Serve the port whose signals begin with ``prefix``.

        ``kind`` is the signature of :mod:`opendpu_hw.memory.ports` it has. The port of a
        ``ParameterRead`` is named by its bank, ``weights`` or ``bias``.
        """
        serve: dict[str, Callable[[str], Any]] = {
            "BankWrite": self._bank_write,
            "BankRead": self._bank_read,
            "RowRead": self._row_read,
            "RowWrite": self._row_write,
            "ConvRead": self._conv_read,
            "ConvWrite": self._conv_write,
            "ParameterRead": self._parameter_read,
        }
        cocotb.start_soon(serve[kind](prefix))

    def _signal(self, prefix: str, name: str) -> Any:
        return getattr(self._dut, f"{prefix}_{name}")

    def _at(self, bank: int, address: int) -> int:
        return bank * self._target.bank_depth + address

    def _word(self, index: int) -> int:
        return int.from_bytes(self.words[index].tobytes(), "little")

    def _store(self, index: int, value: int) -> None:
        self.words[index] = np.frombuffer(
            value.to_bytes(self._target.channel_parallel, "little"), np.int8
        )
        self.writes += 1

    def _junk(self) -> int:
        return self._rng.getrandbits(8 * self._target.channel_parallel)

    def _addresses(self, prefix: str) -> list[int]:
        value = int(self._signal(prefix, "addr").value)
        mask = (1 << self._bits) - 1
        return [value >> self._bits * i & mask for i in range(self._target.pixel_parallel)]

    def _row(self, prefix: str) -> list[tuple[int, int]]:
        """Return (position, index) of every masked bank of a row access."""
        mask = int(self._signal(prefix, "mask").value)
        first = int(self._signal(prefix, "group").value) * self._target.pixel_parallel
        return [
            (i, self._at(first + i, address))
            for i, address in enumerate(self._addresses(prefix))
            if mask >> i & 1
        ]

    def _pack(self, words: list[int]) -> int:
        width = 8 * self._target.channel_parallel
        return sum(word << width * i for i, word in enumerate(words))

    def _unpack(self, value: int, position: int) -> int:
        width = 8 * self._target.channel_parallel
        return value >> width * position & ((1 << width) - 1)

    async def _transfers(self, prefix: str) -> Any:
        """Yield after every edge whether a transfer took place at it; ready stalls at random."""
        valid, ready = self._signal(prefix, "valid"), self._signal(prefix, "ready")
        pause = stalls(random.Random(self._rng.random()))
        ready.value = now = 0
        while True:
            await RisingEdge(self._dut.clk)
            happened = bool(now and int(valid.value))
            yield happened
            now = int(not next(pause))
            ready.value = now

    def _answers(self, prefix: str, name: str) -> Callable[[int], None]:
        """Return what puts a word on a port of image banks, as late as those answer."""
        signal = self._signal(prefix, name)
        coming: collections.deque[int] = collections.deque([0] * (latency.BANK_READ - 1))

        def answer(value: int) -> None:
            coming.append(value)
            signal.value = coming.popleft()

        return answer

    async def _bank_write(self, prefix: str) -> None:
        async for happened in self._transfers(prefix):
            if happened:
                bank = int(self._signal(prefix, "bank_id").value)
                address = int(self._signal(prefix, "addr").value)
                self._store(self._at(bank, address), int(self._signal(prefix, "data").value))

    async def _bank_read(self, prefix: str) -> None:
        answer = self._answers(prefix, "data")
        async for happened in self._transfers(prefix):
            if happened:
                bank = int(self._signal(prefix, "bank_id").value)
                address = int(self._signal(prefix, "addr").value)
                answer(self._word(self._at(bank, address)))
            else:
                answer(self._junk())

    async def _parameter_read(self, prefix: str) -> None:
        data = self._signal(prefix, "data")
        bank = {"weights": self._target.dwconvw_bank, "bias": self._target.bias_bank}[prefix]
        async for happened in self._transfers(prefix):
            address = int(self._signal(prefix, "addr").value)
            data.value = self._word(self._at(bank, address)) if happened else self._junk()

    async def _row_read(self, prefix: str) -> None:
        answer = self._answers(prefix, "data")
        async for happened in self._transfers(prefix):
            words = [self._junk() for _ in range(self._target.pixel_parallel)]
            if happened:
                for position, index in self._row(prefix):
                    words[position] = self._word(index)
            answer(self._pack(words))

    async def _row_write(self, prefix: str) -> None:
        async for happened in self._transfers(prefix):
            if happened:
                value = int(self._signal(prefix, "data").value)
                for position, index in self._row(prefix):
                    self._store(index, self._unpack(value, position))

    async def _conv_read(self, prefix: str) -> None:
        target = self._target
        enable = self._signal(prefix, "en")
        answer, weigh = self._answers(prefix, "data"), self._answers(prefix, "weights")
        words, weights = 0, 0
        while True:
            await RisingEdge(self._dut.clk)
            if not int(enable.value):
                answer(words)  # the outputs of a memory that is not enabled stay
                weigh(weights)
                continue
            first = int(self._signal(prefix, "group").value) * target.pixel_parallel
            turn = int(self._signal(prefix, "turn").value)
            address = int(self._signal(prefix, "weight_addr").value)
            row = [
                self._word(self._at(first + i, a)) for i, a in enumerate(self._addresses(prefix))
            ]
            words = self._pack(row[turn:] + row[:turn])
            weights = self._pack(
                [
                    self._word(self._at(target.convw_base + i, address))
                    for i in range(target.output_channel_parallel)
                ]
            )
            answer(words)
            weigh(weights)

    async def _conv_write(self, prefix: str) -> None:
        while True:
            await RisingEdge(self._dut.clk)
            if int(self._signal(prefix, "mask").value):
                value = int(self._signal(prefix, "data").value)
                for position, index in self._row(prefix):
                    self._store(index, self._unpack(value, position))
