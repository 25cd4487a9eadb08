# SPDX-License-Identifier: Apache-2.0
"""Bank groups of a cascade's buffers: engines that use one port are kept apart."""

from opendpu.compiler.banks import Region
from opendpu.compiler.network import LayerRange
from opendpu.compiler.planner.cascade.bank_groups import bank_group_candidates
from opendpu.compiler.planner.cascade.model import CascadeModel
from opendpu.compiler.planner.cascade.stage import Buffer, Stage, Stripe
from opendpu_arch.isa import Engine

ROWS, WORDS = 8, 100


def buffer(name: str, *, load: int = 0, resident: bool = False) -> Buffer:
    return Buffer(
        name=name, height=ROWS, stride=1, row_words=WORDS, group_rows=8, load=load,
        resident=resident,
    )  # fmt: skip


def cascade(
    buffers: list[Buffer], *stages: tuple[Engine, tuple[int, ...], int, int]
) -> CascadeModel:
    """Return a cascade of stages: engine, buffers read, buffer written, cycles."""
    made = [
        Stage(
            number=number, engine=engine, output=output,
            stripes=(Stripe(row=0, rows=ROWS, needs=(), cycles=cycles),),
        )
        for number, (engine, _, output, cycles) in enumerate(stages)
    ]  # fmt: skip
    return CascadeModel(
        layers=LayerRange(0, len(stages) - 1), stages=tuple(made), buffers=tuple(buffers),
        min_capacities=(1,) * len(buffers), sources=tuple(reads for _, reads, _, _ in stages),
        tiles=({},), weight_cycles=0,
    )  # fmt: skip


def best(model: CascadeModel, resident: dict[str, Region] | None = None) -> tuple[int, ...]:
    pieces = [n for n, one in enumerate(model.buffers) if not one.resident]
    return next(bank_group_candidates(model, resident or {}, pieces, 2))[1]


def test_the_misc_engine_writes_where_conv_does_not() -> None:
    model = cascade(
        [buffer(n) for n in "xabc"],
        (Engine.CONV, (0,), 1, 2 * WORDS), (Engine.MISC, (2,), 3, 2 * WORDS),
    )  # fmt: skip
    groups = best(model)
    assert groups[1] != groups[3]


def test_what_load_fills_is_apart_from_what_conv_and_the_misc_engine_read() -> None:
    """CONV takes a port; LOAD has the other one, so that the misc engine would wait there."""
    model = cascade(
        [buffer("loaded", load=50), buffer("made"), buffer("read"), buffer("result")],
        (Engine.CONV, (0,), 1, 9 * WORDS), (Engine.MISC, (2,), 3, 3 * WORDS),
    )  # fmt: skip
    groups = best(model)
    assert groups[2] != groups[0]


def test_what_counts_is_how_often_conv_writes() -> None:
    """Few results of a large kernel disturb less than many of small ones."""
    names = ["x", "few", "many", "more"]
    buffers = [*(buffer(n, resident=True) for n in names), buffer("operand"), buffer("result")]
    model = cascade(
        buffers,
        (Engine.CONV, (0,), 1, 20 * WORDS), (Engine.CONV, (0,), 2, 2 * WORDS),
        (Engine.CONV, (0,), 3, 2 * WORDS), (Engine.MISC, (4,), 5, 4 * WORDS),
    )  # fmt: skip
    resident = {
        name: Region(bank_group=group, base=0, words=WORDS, stride=1, capacity=1, whole=True)
        for name, group in zip(names, (0, 0, 1, 1), strict=True)
    }
    assert best(model, resident) == (1, 0)


def test_too_many_pieces_have_no_candidates() -> None:
    model = cascade([buffer(f"b{n}") for n in range(14)], (Engine.CONV, (0,), 1, WORDS))
    assert list(bank_group_candidates(model, {}, list(range(14)), 2)) == []
