# SPDX-License-Identifier: Apache-2.0
"""LOADs that bring the input rows of a dilated convolution together."""

from opendpu.compiler.accesses import MemoryAccess
from opendpu.compiler.banks import BankAccess, Region
from opendpu.compiler.emitter.recorder import Operand, Recorder
from opendpu.compiler.layers.cost import transfer_cycles
from opendpu.compiler.layers.gather import RowBlock
from opendpu.compiler.layers.gather_columns import ColumnTile, Piece
from opendpu.compiler.limits import MAX_PIXEL_JUMP, MAX_PIXELS
from opendpu.compiler.plan import Memory
from opendpu_arch.errors import GraphError
from opendpu_arch.isa import LOAD_CONSTANT, Load


class GatheredRows:
    """The input rows that instructions need, side by side; loaded when they are not on chip.

    They go through the region of the operand, in turn with ``alternate`` if there is one.
    """

    def __init__(self, recorder: Recorder, operand: Operand, alternate: Region | None) -> None:
        if operand.memory is None:
            raise GraphError(f"{operand.feature.name}: a map whose rows are gathered is not in DDR")
        self.recorder = recorder
        self.operand = operand
        self.regions = (operand.region, *((alternate,) if alternate else ()))
        self.memory: Memory = operand.memory
        self.groups = -(-operand.feature.channels // recorder.target.channel_parallel)
        self.tile: ColumnTile | None = None
        self._held: dict[int, RowBlock] = {}
        self._next = 0

    @property
    def row_words(self) -> int:
        """Words of a gathered row."""
        assert self.tile is not None
        return self.tile.slots * self.groups

    def start(self, tile: ColumnTile) -> None:
        """Go on with other columns; nothing of them is on chip."""
        self.tile = tile
        self._held = {}

    def need(self, block: RowBlock) -> tuple[int, int]:
        """Return first bank and word of the rows of ``block``, which are loaded if need be."""
        place = next((n for n, held in self._held.items() if held is block), None)
        if place is None:
            place = self._next
            self._next = (place + 1) % sum(region.capacity for region in self.regions)
            self._held[place] = block
            self._load(block, *self._at(place))
        return self._at(place)

    def _at(self, place: int) -> tuple[int, int]:
        region = self.regions[place % len(self.regions)]
        turn = place // len(self.regions)
        bank = region.bank_group * self.recorder.target.pixel_parallel
        return bank, region.base + turn * (region.words // region.capacity)

    def _load(self, block: RowBlock, first_bank: int, word: int) -> None:
        """Load kernel row by kernel row, so that successive LOADs use both ports."""
        assert self.tile is not None
        for tap in range(block.taps):
            for n in range(block.rows):
                row = block.inputs[n * block.taps + tap]
                bank, at = first_bank + n, word + tap * self.row_words
                if row is None:
                    self._zeros(bank, at)
                    continue
                for piece in self.tile.pieces:
                    self._piece(piece, row, bank, at)

    def _zeros(self, bank: int, word: int) -> None:
        assert self.tile is not None
        channels, parallel = self.operand.feature.channels, self.recorder.target.channel_parallel
        for slot in range(0, self.tile.slots, MAX_PIXELS):
            length = min(MAX_PIXELS, self.tile.slots - slot)
            at = word + slot * self.groups
            self.recorder.add(
                Load(
                    bank_id=bank, bank_addr=at, jump_read=1, jump_write=self.groups,
                    channel=channels, length=length, broadcast=LOAD_CONSTANT,
                    reg_id=self.memory.reg_id, ddr_addr=self.memory.address,
                ),
                (BankAccess(True, bank, 1, at, length * self.groups),),
                transfer_cycles(length, channels, 1, parallel),
            )  # fmt: skip

    def _piece(self, piece: Piece, row: int, bank: int, word: int) -> None:
        memory, channels = self.memory, self.operand.feature.channels
        jump, most = piece.step * memory.pixel_bytes, MAX_PIXELS
        if jump > MAX_PIXEL_JUMP:
            jump, most = MAX_PIXEL_JUMP, 1
        for first in range(0, piece.count, most):
            length = min(most, piece.count - first)
            at = word + (piece.slot + first) * self.groups
            column = piece.first + first * piece.step
            address = memory.address + row * memory.row_bytes + column * memory.pixel_bytes
            self.recorder.add(
                Load(
                    bank_id=bank, bank_addr=at, jump_read=jump, jump_write=self.groups,
                    channel=channels, length=length, reg_id=memory.reg_id, ddr_addr=address,
                ),
                (
                    BankAccess(True, bank, 1, at, length * self.groups),
                    MemoryAccess(
                        False, memory.reg_id, address, address + (length - 1) * jump + channels
                    ),
                ),
                transfer_cycles(length, channels, jump, self.recorder.target.channel_parallel),
            )  # fmt: skip
