# SPDX-License-Identifier: Apache-2.0
"""LOAD and SAVE: rows of feature maps, weights, biases."""

import dataclasses
from collections.abc import Iterable, Iterator

from opendpu.compiler.accesses import MemoryAccess
from opendpu.compiler.banks import BankAccess
from opendpu.compiler.banks.layout import Layout
from opendpu.compiler.emitter.recorder import Operand, Recorder
from opendpu.compiler.layers.cost import transfer_cycles
from opendpu.compiler.limits import MAX_PIXEL_JUMP, MAX_PIXELS, MAX_SAVE_BYTES, MAX_WORD_JUMP
from opendpu.compiler.plan import WEIGHTS_REG, LoopNest, Memory
from opendpu_arch.errors import GraphError
from opendpu_arch.isa import Load, Save

SHORT_LOAD = 512
"""Bytes below which the instruction costs more than its transfer."""


class Source:
    """An input of a layer for one tile; loads each row when it is first needed.

    ``made`` says that a layer which runs at the same time makes every row in time.
    """

    def __init__(
        self, recorder: Recorder, operand: Operand, layout: Layout, *, made: bool = False
    ) -> None:
        self.recorder = recorder
        self.operand = operand
        self.layout = layout
        self.made = made
        self._rows: set[int] = set()
        if operand.region.whole:
            self._rows = recorder.on_chip.setdefault(operand.feature.name, set())

    def forget(self) -> None:
        """Expect no row on chip, because a new pass starts; whole feature maps stay."""
        if not self.operand.region.whole:
            self._rows = set()

    def need(self, rows: Iterable[int]) -> None:
        """Load those of ``rows`` that are real and not yet on chip."""
        for row in () if self.made else rows:
            if 0 <= row < self.operand.feature.height and row not in self._rows:
                self._rows.add(row)
                load_row(self.recorder, self.operand, self.layout, row)


def load_row(recorder: Recorder, operand: Operand, layout: Layout, row: int) -> None:
    """Copy one row of the tile from DDR to its bank."""
    memory, feature = operand.memory, operand.feature
    if memory is None:
        raise GraphError(f"{feature.name}: row {row} is neither on chip nor in DDR")
    parallel = recorder.target.channel_parallel
    for plane in _planes(recorder, operand, memory):
        first = max(layout.first_group, plane.group)
        last = min(layout.first_group + layout.groups, plane.group + -(-plane.channels // parallel))
        if first < last:
            _load_pixels(recorder, plane, layout, row, range(first, last))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Plane:
    """Channels of a feature map that lie together in DDR, from channel group ``group`` on."""

    memory: Memory
    channels: int
    group: int = 0


def _planes(recorder: Recorder, operand: Operand, memory: Memory) -> Iterator[_Plane]:
    """Yield the planes of a feature map, of which most have one."""
    group, plan = 0, recorder.plan
    for name in operand.feature.planes:
        channels = plan.network.features[name].channels
        yield _Plane(memory=plan.memory[name], channels=channels, group=group)
        group += -(-channels // recorder.target.channel_parallel)
    if not operand.feature.planes:
        yield _Plane(memory=memory, channels=operand.feature.channels)


def _load_pixels(
    recorder: Recorder, plane: _Plane, layout: Layout, row: int, groups: range
) -> None:
    """Copy channel groups of a plane, in one row of the tile.

    Pixels that stand beside themselves are loaded as often, each time in jumps.
    """
    memory, parallel = plane.memory, recorder.target.channel_parallel
    place, step = layout.place(row), memory.repeat_w
    first = (groups.start - plane.group) * parallel
    channel = min(plane.channels, first + len(groups) * parallel) - first
    most, jump = _reach(memory)
    bank = layout.first_bank + place.bank
    start = memory.address + row // memory.repeat_h * memory.row_bytes + first
    end = layout.first_column + layout.columns
    for side in range(layout.first_column, min(end, layout.first_column + step)):
        for column in range(side, end, most * step):
            length = min(most, -(-(end - column) // step))
            address = start + column // step * memory.pixel_bytes
            word = layout.word(place.address_group, place.offset, column, groups.start)
            pad_start, pad_idx, pad_end = _overhang(memory, column, length, channel, parallel)
            words = (length - 1) * step * layout.groups + len(groups)
            recorder.add(
                Load(
                    bank_id=bank, bank_addr=word, jump_read=jump,
                    jump_write=step * layout.groups if length > 1 else layout.groups,
                    channel=channel, length=length,
                    reg_id=memory.reg_id, ddr_addr=address,
                    pad_start=pad_start, pad_idx=pad_idx, pad_end=pad_end,
                    const_value=memory.padding & 0xFF,
                ),
                (
                    BankAccess(True, bank, 1, word, words),
                    MemoryAccess(
                        False, memory.reg_id, address,
                        address + (length - 1) * jump + channel,
                    ),
                ),
                transfer_cycles(length, channel, jump, parallel),
            )  # fmt: skip


def _reach(memory: Memory, step: int = 1) -> tuple[int, int]:
    """Return the most pixels of an instruction, and its bytes between pixels ``step`` apart."""
    jump = step * memory.pixel_bytes
    return (1, MAX_PIXEL_JUMP) if jump > MAX_PIXEL_JUMP else (MAX_PIXELS, jump)


def _overhang(
    memory: Memory, column: int, length: int, channel: int, parallel: int
) -> tuple[int, int, int]:
    """Return ``pad_start``, ``pad_idx``, ``pad_end`` of a LOAD of ``length`` pixels.

    They say what overlapping pixels read beside their row, which becomes padding.
    """
    if memory.lead is None:
        return 0, 1, 0
    step = memory.pixel_bytes
    start = column * step - memory.lead
    beyond = [max(0, start + n * step + channel - memory.row_bytes) for n in range(length)]
    if not beyond[-1]:
        return max(0, -start), 1, 0
    first = next(n for n, over in enumerate(beyond) if over)
    return max(0, -start), length - first, -channel % parallel + beyond[first]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tile:
    """Columns and channel groups of a feature map that are made together."""

    column: int
    columns: int
    group: int
    groups: int
    step: int = 1
    """From one of the columns to the next, in the feature map."""


def tiles_of(whole: Tile, nest: LoopNest) -> Iterator[Tile]:
    """Yield the tiles of a layer of the misc engine: channel groups, then columns."""
    for group in range(0, whole.groups, nest.groups):
        for column in range(0, whole.columns, nest.columns):
            yield Tile(
                column=column, columns=min(nest.columns, whole.columns - column),
                group=group, groups=min(nest.groups, whole.groups - group),
            )  # fmt: skip


def parts_of(whole: Tile, groups: int) -> Iterator[Tile]:
    """Yield the parts of a tile that have so many of its channel groups."""
    for group in range(0, whole.groups, groups):
        yield dataclasses.replace(
            whole, group=whole.group + group, groups=min(groups, whole.groups - group)
        )


def save_rows(
    recorder: Recorder, operand: Operand, layout: Layout, tile: Tile, rows: Iterable[int]
) -> None:
    """Copy rows of a tile from their banks to DDR, if the feature map lives there."""
    memory, feature = operand.memory, operand.feature
    if memory is None:
        return
    parallel = recorder.target.channel_parallel
    first = tile.group * parallel
    channels = min(feature.channels, first + tile.groups * parallel) - first
    most = MAX_SAVE_BYTES // parallel * parallel
    longest, jump = _reach(memory, tile.step)
    word_jump = tile.step * layout.groups
    for row in rows:
        place = layout.place(row)
        bank = layout.first_bank + place.bank
        for at in range(0, tile.columns, longest):
            length = min(longest, tile.columns - at)
            column = tile.column + at * tile.step
            for low in range(0, channels, most):
                channel = min(most, channels - low)
                group = tile.group + low // parallel
                word = layout.word(place.address_group, place.offset, column, group)
                address = (
                    memory.address + row * memory.row_bytes + column * memory.pixel_bytes
                    + first + low
                )  # fmt: skip
                recorder.add(
                    Save(
                        bank_id=bank, bank_addr=word, hp_id=recorder.saves % 2,
                        jump_write=jump, jump_read=word_jump,
                        channel=channel, length=length, reg_id=memory.reg_id, ddr_addr=address,
                    ),
                    (
                        BankAccess(
                            False, bank, 1, word,
                            (length - 1) * word_jump + -(-channel // parallel),
                        ),
                        MemoryAccess(
                            True, memory.reg_id, address,
                            address + (length - 1) * jump + channel,
                        ),
                    ),
                    transfer_cycles(length, channel, jump, parallel),
                )  # fmt: skip
                recorder.saves += 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class WeightsPlace:
    """Where the weights of a convolution are in DDR: byte address in a segment, and from an output
    channel to the next."""

    reg_id: int
    address: int
    output_bytes: int


def load_conv_weights(
    recorder: Recorder, place: WeightsPlace, shape: tuple[int, int, int, int], block: int,
    blocks: int,
) -> list[int]:  # fmt: skip
    """Load the weights of ``blocks`` blocks of output channels, a LOAD a lane; return their words.

    ``shape`` is OHWI. Lanes beyond the last output channel keep what they hold.
    """
    target = recorder.target
    outputs, height, width, inputs = shape
    lanes = target.output_channel_parallel
    groups = -(-inputs // target.input_channel_parallel)
    taps = height * width
    word = recorder.conv_weights.take(blocks * taps * groups)
    first = block * lanes
    for lane in range(min(lanes, outputs - first)):
        at = place.address + (first + lane) * place.output_bytes
        # One block: a pixel a tap. Several: a pixel a block, so the taps must leave no gaps.
        length, channel, jump, step = taps, inputs, inputs, groups
        if blocks > 1:
            length = min(blocks, -(-(outputs - first - lane) // lanes))
            channel, jump, step = taps * inputs, lanes * place.output_bytes, taps * groups
        _load_lane(
            recorder, place, lane, at, (word, blocks * taps * groups),
            length=length, channel=channel, jump_read=jump, jump_write=step,
        )  # fmt: skip
    return [(word + n * taps * groups) % target.bank_depth for n in range(blocks)]


def load_kernel_part(
    recorder: Recorder, place: WeightsPlace, shape: tuple[int, int, int, int], block: int,
    rows: range, columns: range,
) -> int:  # fmt: skip
    """Load some kernel rows and columns of a block's weights, for all lanes; return their word.

    ``shape`` is the whole kernel's, OHWI. They lie as in a kernel that has no others.
    """
    target = recorder.target
    outputs, _, width, inputs = shape
    lanes = target.output_channel_parallel
    groups = -(-inputs // target.input_channel_parallel)
    word = recorder.conv_weights.take(len(rows) * len(columns) * groups)
    # A LOAD for all of them if they are side by side, else one for each column.
    first = [rows.start * width + column for column in columns]
    length, step, jump = len(rows), len(columns) * groups, width * inputs
    if len(columns) == width or len(rows) == 1:
        first, length, step, jump = first[:1], len(rows) * len(columns), groups, inputs
    for lane in range(min(lanes, outputs - block * lanes)):
        output = place.address + (block * lanes + lane) * place.output_bytes
        for number, tap in enumerate(first):
            at = (word + number * groups) % target.bank_depth
            _load_lane(
                recorder, place, lane, output + tap * inputs, (at, (length - 1) * step + groups),
                length=length, channel=inputs, jump_read=jump, jump_write=step,
            )  # fmt: skip
    return word


def _load_lane(
    recorder: Recorder, place: WeightsPlace, lane: int, address: int, words: tuple[int, int], *,
    length: int, channel: int, jump_read: int, jump_write: int,
) -> None:  # fmt: skip
    """Load weights of a lane of CONV from a byte address; ``words`` are the first, and how many."""
    target = recorder.target
    bank, (word, many) = target.convw_base + lane, words
    accesses: list[BankAccess | MemoryAccess] = [BankAccess(True, bank, 1, word, many)]
    if place.reg_id != WEIGHTS_REG:  # a feature map, which has to be there first
        end = address + (length - 1) * jump_read + channel
        accesses.append(MemoryAccess(False, place.reg_id, address, end))
    recorder.add(
        Load(
            bank_id=bank, bank_addr=word, jump_read=jump_read, jump_write=jump_write,
            channel=channel, length=length, reg_id=place.reg_id, ddr_addr=address,
        ),
        accesses, transfer_cycles(length, channel, jump_read, target.channel_parallel),
    )  # fmt: skip


def blocks_a_load(
    recorder: Recorder, place: WeightsPlace, shape: tuple[int, int, int, int], most: int
) -> int:
    """Return how many blocks of output channels a LOAD a lane should bring.

    More than one where a LOAD would be short, as far as its fields reach.
    """
    target = recorder.target
    _, height, width, inputs = shape
    taps = height * width
    words = taps * -(-inputs // target.input_channel_parallel)
    gaps = taps > 1 and inputs % target.input_channel_parallel
    far = place.output_bytes * target.output_channel_parallel > MAX_PIXEL_JUMP
    if gaps or far or words > MAX_WORD_JUMP:
        return 1
    return max(1, min(most, SHORT_LOAD // (taps * inputs)))


def load_alu_weights(
    recorder: Recorder, place: tuple[int, int], taps: int, channels: int, first_group: int,
    groups: int,
) -> int:  # fmt: skip
    """Load ``groups`` channel groups of HWC weights into DWCONVW; return their word.

    They are at a byte address of a segment. Parts of one op have the same constants, which are
    loaded once; a feature map there is loaded each time.
    """
    target = recorder.target
    reg_id, address = place
    constant = reg_id == WEIGHTS_REG
    key = (address, taps, channels, first_group, groups) if constant else None
    held = recorder.alu_weights.held(key) if constant else None
    if held is not None:
        return held
    first = first_group * target.channel_parallel
    channel = min(channels, first + groups * target.channel_parallel) - first
    word = recorder.alu_weights.take(taps * groups, key)
    for tap in range(0, taps, MAX_PIXELS):
        count = min(MAX_PIXELS, taps - tap)
        at = address + tap * channels + first
        where = (word + tap * groups) % target.bank_depth
        accesses: list[BankAccess | MemoryAccess] = [
            BankAccess(True, target.dwconvw_bank, 1, where, count * groups)
        ]
        if not constant:
            end = at + (count - 1) * channels + channel
            accesses.append(MemoryAccess(False, reg_id, at, end))
        recorder.add(
            Load(
                bank_id=target.dwconvw_bank, bank_addr=where, jump_read=channels,
                jump_write=groups, channel=channel, length=count, reg_id=reg_id, ddr_addr=at,
            ),
            accesses, transfer_cycles(count, channel, channels, target.channel_parallel),
        )  # fmt: skip
    return word
