# SPDX-License-Identifier: Apache-2.0
"""LOAD and SAVE of one layer that only moves data.

What is on chip is saved from there. What is in DDR goes through the words of one bank group, each
piece through the next bank, so that loading and saving overlap.
"""

import dataclasses
import itertools
from collections.abc import Iterator

from opendpu.compiler.accesses import MemoryAccess
from opendpu.compiler.banks import BankAccess
from opendpu.compiler.emitter.kind import LayerEmitter
from opendpu.compiler.emitter.layouts import tile_layout, whole_tile
from opendpu.compiler.emitter.recorder import Operand, Recorder
from opendpu.compiler.emitter.transfer import Source
from opendpu.compiler.layers import MoveLayer, Reduction
from opendpu.compiler.layers.cost import transfer_cycles
from opendpu.compiler.limits import MAX_PIXEL_JUMP, MAX_PIXELS, MAX_SAVE_BYTES, MAX_WORD_JUMP
from opendpu.compiler.plan import LayerPlan, Memory
from opendpu_arch.errors import GraphError
from opendpu_arch.isa import Load, Save

ARGMAX = {None: 0, Reduction.INDEX: 2, Reduction.VALUE: 3}
"""Field ``argmax`` of SAVE."""


def emit_move(recorder: Recorder, plan: LayerPlan, layer: MoveLayer) -> None:
    """Append the commands of a layer that copies, repeats, fills or reduces pixels."""
    output = recorder.operand(layer.output, plan.output)
    if output.memory is None:
        raise GraphError(f"{layer.output}: the result of a move is not in DDR")
    if layer.source is None:
        _fill(recorder, layer, output, output.memory)
        return
    (source,) = recorder.operands(plan)
    if source.region.whole:
        _from_banks(recorder, layer, source, output.memory)
    else:
        _through_banks(recorder, plan, layer, source, output)


MOVE = LayerEmitter(alone=emit_move)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Axis:
    """Strides along one axis, in bytes: of the source and of the result."""

    size: int
    source: int
    output: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """Pixels that one LOAD or SAVE can reach: byte offsets of the first one, and their steps."""

    source: int
    output: int
    pixels: Axis
    channels: int


def simplest(rows: Axis, columns: Axis, channels: int, *, whole: bool) -> tuple[Axis, Axis, int]:
    """Return the same pixels with as much as possible in the inner axis, or in the pixels.

    ``whole`` pixels are not joined.
    """
    if columns.size == 1:
        rows, columns = columns, rows
    if rows.size > 1 and (columns.size * columns.source, columns.size * columns.output) == (
        rows.source, rows.output,
    ):  # fmt: skip
        columns = dataclasses.replace(columns, size=columns.size * rows.size)
        rows = dataclasses.replace(rows, size=1)
    if not whole and (columns.source, columns.output) == (channels, channels):
        channels *= columns.size
        columns, rows = rows, Axis(size=1, source=0, output=0)
        if columns.size == 1:
            return rows, Axis(size=1, source=channels, output=channels), channels
    return rows, columns, channels


def runs(rows: Axis, columns: Axis, channels: int, *, most: int, words: int, parallel: int) -> (
    Iterator[Run]
):  # fmt: skip
    """Yield what instructions of at most ``most`` bytes a pixel and ``words`` words move."""
    most = min(most, words * parallel)
    far = max(columns.source, columns.output) > MAX_PIXEL_JUMP
    for row in range(rows.size):
        for low in range(0, channels, most):
            count = min(most, channels - low)
            length = 1 if far else min(MAX_PIXELS, words // -(-count // parallel))
            for column in range(0, columns.size, length):
                yield Run(
                    source=row * rows.source + column * columns.source + low,
                    output=row * rows.output + column * columns.output + low,
                    pixels=dataclasses.replace(columns, size=min(length, columns.size - column)),
                    channels=count,
                )


def _fill(recorder: Recorder, layer: MoveLayer, output: Operand, memory: Memory) -> None:
    """Write one byte everywhere."""
    feature, parallel = output.feature, recorder.target.channel_parallel
    rows, columns, channels = simplest(
        Axis(size=feature.height, source=memory.row_bytes, output=memory.row_bytes),
        Axis(size=feature.width, source=memory.pixel_bytes, output=memory.pixel_bytes),
        feature.channels, whole=False,
    )  # fmt: skip
    words = MAX_PIXELS * MAX_SAVE_BYTES // parallel
    for run in runs(rows, columns, channels, most=MAX_SAVE_BYTES, words=words, parallel=parallel):
        _save(recorder, layer, memory, memory.address + run.output, run, None, 0, 1)


def _from_banks(recorder: Recorder, layer: MoveLayer, source: Operand, memory: Memory) -> None:
    """Save a feature map that is on chip, once for every repetition."""
    feature, parallel = source.feature, recorder.target.channel_parallel
    layout = tile_layout(recorder, source, whole_tile(recorder, source))
    rows_in = Source(recorder, source, layout)
    most = MAX_SAVE_BYTES // parallel * parallel
    step = Axis(size=1, source=0, output=layer.repeat_w * memory.pixel_bytes)
    for row in range(feature.height):
        rows_in.need([row])
        place = layout.place(row)
        for column in range(0, feature.width, MAX_PIXELS):
            length = min(MAX_PIXELS, feature.width - column)
            for low in range(0, feature.channels, most):
                word = layout.word(place.address_group, place.offset, column, low // parallel)
                run = Run(
                    source=0, output=low, pixels=dataclasses.replace(step, size=length),
                    channels=min(most, feature.channels - low),
                )  # fmt: skip
                for i, j in itertools.product(range(layer.repeat_h), range(layer.repeat_w)):
                    at = memory.address + (row * layer.repeat_h + i) * memory.row_bytes + low
                    at += (column * layer.repeat_w + j) * memory.pixel_bytes
                    bank = layout.first_bank + place.bank
                    _save(recorder, layer, memory, at, run, bank, word, layout.groups)


def _through_banks(
    recorder: Recorder, plan: LayerPlan, layer: MoveLayer, source: Operand, output: Operand
) -> None:
    """Load piece by piece, and save each; repeated columns are loaded side by side."""
    memory, to, feature = source.memory, output.memory, source.feature
    if memory is None or to is None:
        raise GraphError(f"{feature.name}: it is neither on chip nor in DDR")
    target, region = recorder.target, plan.output
    parallel, repeat = target.channel_parallel, layer.repeat_w
    plain = layer.reduction is None and layer.repeat_h == repeat == 1
    rows = Axis(size=feature.height, source=memory.row_bytes, output=to.row_bytes * layer.repeat_h)
    columns = Axis(size=feature.width, source=memory.pixel_bytes, output=to.pixel_bytes * repeat)
    channels = feature.channels
    if plain:
        rows, columns, channels = simplest(rows, columns, channels, whole=False)
    pieces = runs(
        rows, columns, channels,
        most=min(MAX_SAVE_BYTES // parallel, MAX_WORD_JUMP // repeat) * parallel,
        words=region.words // repeat, parallel=parallel,
    )  # fmt: skip
    first = region.bank_group * target.pixel_parallel
    for number, run in enumerate(pieces):
        bank = first + number % target.pixel_parallel
        groups = -(-run.channels // parallel)
        for side in range(repeat):
            _load(recorder, memory, run, bank, region.base + side * groups, repeat * groups)
        wide = dataclasses.replace(
            run,
            pixels=Axis(size=run.pixels.size * repeat, source=0, output=columns.output // repeat),
        )
        for below in range(layer.repeat_h):
            at = to.address + run.output + below * to.row_bytes
            for start in range(0, wide.pixels.size, MAX_PIXELS):
                size = min(MAX_PIXELS, wide.pixels.size - start)
                part = dataclasses.replace(wide, pixels=dataclasses.replace(wide.pixels, size=size))
                _save(recorder, layer, to, at + start * wide.pixels.output, part, bank,
                      region.base + start * groups, groups)  # fmt: skip


def _load(
    recorder: Recorder, memory: Memory, run: Run, bank: int, word: int, jump_write: int
) -> None:
    """Append one LOAD."""
    pixels, groups = run.pixels, -(-run.channels // recorder.target.channel_parallel)
    jump = pixels.source if pixels.size > 1 else run.channels
    at = memory.address + run.source
    recorder.add(
        Load(
            bank_id=bank, bank_addr=word, jump_read=jump, jump_write=jump_write,
            channel=run.channels, length=pixels.size, reg_id=memory.reg_id, ddr_addr=at,
        ),
        (
            BankAccess(True, bank, 1, word, (pixels.size - 1) * jump_write + groups),
            MemoryAccess(
                False, memory.reg_id, at, at + (pixels.size - 1) * jump + run.channels
            ),
        ),
        transfer_cycles(pixels.size, run.channels, jump, recorder.target.channel_parallel),
    )  # fmt: skip


def _save(
    recorder: Recorder, layer: MoveLayer, memory: Memory, at: int, run: Run, bank: int | None,
    word: int, jump_read: int,
) -> None:  # fmt: skip
    """Append one SAVE; without ``bank`` it writes the layer's constant."""
    parallel = recorder.target.channel_parallel
    size, channels = run.pixels.size, run.channels
    written = channels if layer.reduction is None else 1
    jump = run.pixels.output if size > 1 else written
    accesses: list[BankAccess | MemoryAccess] = [
        MemoryAccess(True, memory.reg_id, at, at + (size - 1) * jump + written)
    ]
    if bank is not None:
        count = (size - 1) * jump_read + -(-channels // parallel)
        accesses.append(BankAccess(False, bank, 1, word, count))
    recorder.add(
        Save(
            bank_id=bank or 0, bank_addr=word, hp_id=recorder.saves % 2, jump_write=jump,
            jump_read=jump_read, channel=channels, length=size, reg_id=memory.reg_id,
            ddr_addr=at, argmax=ARGMAX[layer.reduction], const_en=int(bank is None),
            const_value=(layer.value or 0) % 256,
        ),
        accesses,
        transfer_cycles(size, channels, jump, parallel),
    )  # fmt: skip
    recorder.saves += 1
