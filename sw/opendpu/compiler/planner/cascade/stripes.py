# SPDX-License-Identifier: Apache-2.0
"""Stripes: the rows of a layer that are made at a time in a cascade, and what they cost."""

import dataclasses

from opendpu.compiler.banks import Region
from opendpu.compiler.banks.layout import Layout
from opendpu.compiler.banks.reach import can_read, can_write, chunks, walks_round
from opendpu.compiler.layers import ComputeLayer, Feature, Window, channel_groups
from opendpu.compiler.layers.layer import StripeCycles
from opendpu.compiler.limits import MAX_COLUMNS
from opendpu.compiler.network import Network
from opendpu.compiler.planner.cascade.stage import Buffer, Need, Stripe
from opendpu_arch.target import Target


@dataclasses.dataclass(frozen=True, kw_only=True)
class StripeRequest:
    """A layer to cut into stripes of ``columns`` columns."""

    layer: ComputeLayer
    network: Network
    target: Target
    operands: tuple[Buffer, ...]
    read: tuple[int, ...]
    """Numbers of those buffers."""
    output: Buffer
    columns: int
    groups: int
    """Blocks of output channels, or channel groups, that are made at a time."""

    @property
    def source(self) -> Feature:
        """The operand under the window."""
        return self.network.features[self.operands[0].name]

    @property
    def out(self) -> Feature:
        """The result."""
        return self.network.features[self.layer.output]

    @property
    def window(self) -> Window:
        """The window over the first operand; one pixel where there is none."""
        return self.layer.sliding_window(self.operands[0].name) or Window()


def cut_stripes(request: StripeRequest) -> tuple[Stripe, ...] | None:
    """Return the rows that are made at a time, or none if an instruction cannot do it."""
    if not _reachable(request):
        return None
    layer, window, source, out = request.layer, request.window, request.source, request.out
    most = layer.stripe_rows(request.target)
    layout_in, layout_out = _layout(request, request.operands[0]), _layout(request, request.output)
    if layer.intermediate is not None:
        tile = dataclasses.replace(
            request.output, stride=1, group_rows=most, row_words=request.columns * request.groups
        )
        layout_out = _layout(request, tile)

    bank_rows = request.target.pixel_parallel

    def fits(row: int, rows: int) -> bool:
        if layer.intermediate is not None and row // bank_rows != (row + rows - 1) // bank_rows:
            return False  # every stripe has one place of the tile that waits for its epilogue
        return can_read(layout_in, source, window, row, rows) and can_write(
            layout_out, row, rows, max_jump=layer.REACH.row_jump
        )

    stripes = []
    cycles: dict[int, StripeCycles] = {}
    for row, rows in chunks(0, out.height, most, fits):
        if rows == 1 and not can_read(layout_in, source, window, row, rows):
            return None
        if rows not in cycles:
            cycles[rows] = _cycles(request, rows)
        stripes.append(_stripe(request, row, rows, cycles[rows]))
    return tuple(stripes) if len(stripes) <= 2 * -(-out.height // most) else None


def _reachable(request: StripeRequest) -> bool:
    """Tell whether the fields of an instruction hold columns, channels and distances."""
    layer, target, operand = request.layer, request.target, request.operands[0]
    most = layer.max_output_groups
    if request.columns > MAX_COLUMNS:
        return False
    if most is not None and channel_groups(request.out, target) > most:
        return False
    groups_in = channel_groups(request.source, target)
    if walks_round(request.window, target, request.columns, groups_in):
        return False
    return operand.stride == 1 or operand.row_words <= layer.REACH.row_jump


def _cycles(request: StripeRequest, rows: int) -> StripeCycles:
    return request.layer.stripe_cycles(
        request.network.features, request.target, rows=rows, columns=request.columns,
        groups=request.groups, rows_per_bank=request.output.stride,
    )  # fmt: skip


def _stripe(request: StripeRequest, row: int, rows: int, cycles: StripeCycles) -> Stripe:
    window, height = request.window, request.source.height
    top = row * window.stride_h - window.pad_top
    low = min(max(0, top), height - 1)
    high = max(low + 1, min(height, top + (rows - 1) * window.stride_h + window.kernel_h))
    return Stripe(
        row=row, rows=rows,
        needs=(
            Need(request.read[0], low, high),
            *(
                Need(buffer, 0, 1) if request.layer.repeats(operand.name)
                else Need(buffer, row, row + rows)
                for buffer, operand in zip(request.read[1:], request.operands[1:], strict=True)
            ),
        ),
        cycles=cycles.engine, after=cycles.epilogue, passes=cycles.passes, beside=cycles.beside,
    )  # fmt: skip


def _layout(request: StripeRequest, buffer: Buffer) -> Layout:
    region = Region(
        bank_group=0, base=0, words=0, stride=buffer.stride, capacity=max(buffer.groups, 1)
    )
    return Layout(target=request.target, region=region, columns=buffer.row_words, groups=1)
