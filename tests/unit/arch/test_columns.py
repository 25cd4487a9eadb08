# SPDX-License-Identifier: Apache-2.0
"""Programs as arrays: the same words, the same errors as record by record."""

import dataclasses
import random
import struct

import numpy as np
import pytest

from opendpu_arch import isa
from opendpu_arch.bits import Record
from opendpu_arch.columns import Columns
from opendpu_arch.errors import EncodingError


def program(seed: int, size: int) -> list[isa.Instruction]:
    """Draw instructions, a few of which have reserved bits."""
    draw = random.Random(seed)
    made = []
    for _ in range(size):
        kind = draw.choice(list(isa.INSTRUCTIONS.values()))
        values = {f.name: draw.randint(f.minimum, f.maximum) for f in kind.bit_fields()}
        rest = tuple(draw.getrandbits(32) & ~claimed for claimed in kind.claimed())
        made.append(kind(reserved=rest if draw.random() < 0.1 else (), **values))
    return made


@pytest.mark.parametrize("size", [0, 1, 7, 500])
def test_words_are_those_of_each_record(size: int) -> None:
    records = program(size, size)
    words = [word for record in records for word in record.encode()]
    assert Columns(records).encode() == struct.pack(f"<{len(words)}I", *words)


def test_columns_have_the_values_in_order() -> None:
    records = program(3, 200)
    columns = Columns(records)
    loads = [record for record in records if isinstance(record, isa.Load)]
    assert columns.column(isa.Load, "ddr_addr").tolist() == [load.ddr_addr for load in loads]
    assert [records[n] for n in columns.numbers[isa.Load].tolist()] == loads
    assert Columns(loads).column(isa.Save, "ddr_addr").tolist() == []


def test_integers_of_any_kind_are_integers() -> None:
    records: list[Record] = [isa.Load(length=np.int16(5)), isa.Alu(table=True), isa.Load()]
    assert Columns(records).encode() == isa.encode([isa.Load(length=5), isa.Alu(table=1)]) + (
        isa.encode([isa.Load()])
    )


@pytest.mark.parametrize("value", [0, 1025, -1, 1.5, None, "3", 1 << 80])
def test_a_value_that_does_not_fit_is_the_error_of_its_record(value: int) -> None:
    bad = isa.Load(length=value)
    with pytest.raises(EncodingError) as wanted:
        bad.encode()
    with pytest.raises(EncodingError) as found:
        Columns([isa.Load(), isa.End(), bad, isa.Save()]).encode()
    assert str(found.value) == str(wanted.value)


def test_the_first_of_several_is_named() -> None:
    records = [isa.Load(), isa.Save(length=0), isa.Load(length=0)]
    with pytest.raises(EncodingError, match=r"Save\.length is 0"):
        Columns(records).encode()
    with pytest.raises(EncodingError, match=r"Save\.reserved is"):
        Columns([isa.Save(reserved=(1,)), *records]).encode()


def test_given_values_count_instead_of_the_records_own() -> None:
    records = program(5, 60)
    given = [n % 16 for n in range(60)]
    wanted = [
        dataclasses.replace(record, dpdby=n) for record, n in zip(records, given, strict=True)
    ]
    assert Columns(records, {"dpdby": given}).encode() == Columns(wanted).encode()
