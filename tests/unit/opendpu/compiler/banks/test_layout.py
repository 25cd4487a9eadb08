# SPDX-License-Identifier: Apache-2.0
"""Rows, address groups and words of feature maps in the banks."""

import pytest

from opendpu.compiler.banks import Region
from opendpu.compiler.banks.layout import Layout, Place, address_groups
from opendpu.compiler.program import BankAccess
from opendpu_arch.target import Target

TARGET = Target.from_name("B512")  # 4 rows of banks


def layout(**region: int) -> Layout:
    values = {"bank_group": 1, "base": 100, "words": 0, "stride": 1, "capacity": 3, **region}
    return Layout(target=TARGET, region=Region(**values), columns=5, groups=2)


@pytest.mark.parametrize(
    ("row", "stride", "place"),
    [
        (0, 1, Place(bank=0, offset=0, address_group=0)),
        (5, 1, Place(bank=1, offset=0, address_group=1)),
        (-1, 1, Place(bank=3, offset=0, address_group=-1)),
        (5, 2, Place(bank=2, offset=1, address_group=0)),
        (9, 2, Place(bank=0, offset=1, address_group=1)),
    ],
)
def test_place(row: int, stride: int, place: Place) -> None:
    assert layout(stride=stride).place(row) == place


def test_first_row_moves_everything() -> None:
    assert layout(first_row=-1).place(-1) == Place(bank=0, offset=0, address_group=0)


def test_address_groups_come_round() -> None:
    made = layout()
    assert [made.base(g) for g in range(5)] == [100, 110, 120, 100, 110]
    assert made.bases(8, 0) == (120, 100, 110, 120)


def test_words_count_columns_and_groups() -> None:
    made = layout(stride=2)
    assert made.word(1, 1, 3, 1) == 100 + 20 + 10 + 3 * 2 + 1


def test_words_before_the_first_column_wrap() -> None:
    assert layout(base=0).word(0, 0, -1) == TARGET.bank_depth - 2


def test_accesses_name_the_banks_of_each_address_group() -> None:
    assert layout().accesses(2, 3, write=True) == (
        BankAccess(True, 6, 2, 100, 10),
        BankAccess(True, 4, 1, 110, 10),
    )


def test_accesses_of_rows_in_one_bank() -> None:
    assert layout(stride=4).accesses(1, 2, write=False) == (BankAccess(False, 4, 1, 110, 20),)


def test_accesses_of_part_of_the_rows_of_a_bank() -> None:
    """A LOAD of the next row need not wait for whoever reads the one before it in the bank."""
    assert layout(stride=2).accesses(1, 6, write=False) == (
        BankAccess(False, 4, 1, 110, 10),
        BankAccess(False, 5, 2, 100, 20),
        BankAccess(False, 7, 1, 100, 10),
    )


def test_address_groups_of_rows() -> None:
    assert [address_groups(TARGET, 2, n) for n in (1, 8, 9)] == [1, 1, 2]
