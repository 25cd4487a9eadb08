# SPDX-License-Identifier: Apache-2.0
"""Records: packing, biased fields, reserved bits, and what the errors say."""

import dataclasses

import pytest

from opendpu_arch.bits import Record, bits
from opendpu_arch.errors import DecodeError, EncodingError


class Sample(Record):
    """Two words with a hole."""

    WORDS = 2
    FIXED = ((0xF000_0000, 0x5000_0000), (0, 0))

    kind: int = bits(0, 27, 24, doc="A plain field.")
    length: int = bits(0, 9, 0, doc="A biased field.", minus_one=True)
    address: int = bits(1, 28, 0, doc="A wide field.")


def test_fields_say_where_they_are() -> None:
    kind, length, address = Sample.bit_fields()
    assert (kind.name, kind.word, kind.high, kind.low, kind.width) == ("kind", 0, 27, 24, 4)
    assert (kind.minimum, kind.maximum, kind.mask) == (0, 15, 0x0F00_0000)
    assert (length.minimum, length.maximum) == (1, 1024)
    assert address.doc == "A wide field."


def test_claimed_bits_are_fields_and_constants() -> None:
    assert Sample.claimed() == (0xFF00_03FF, 0x1FFF_FFFF)


def test_fields_default_to_their_minimum() -> None:
    assert Sample().encode() == (0x5000_0000, 0)


def test_minus_one_fields_store_their_value_less_one() -> None:
    assert Sample(kind=3, length=26, address=0x1234).encode() == (0x5300_0019, 0x1234)
    assert Sample(length=1024).encode()[0] & 0x3FF == 0x3FF


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": 16}, "Sample.kind is 16, but must be in 0..15"),
        ({"kind": -1}, "Sample.kind is -1, but must be in 0..15"),
        ({"length": 0}, "Sample.length is 0, but must be in 1..1024"),
        ({"length": 1025}, "Sample.length is 1025, but must be in 1..1024"),
        ({"address": 1 << 29}, "Sample.address is 536870912, but must be in 0..536870911"),
        ({"kind": 1.5}, "Sample.kind is 1.5, but must be an integer"),
        ({"kind": None}, "Sample.kind is None, but must be an integer"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error(values: dict[str, int], message: str) -> None:
    with pytest.raises(EncodingError) as caught:
        Sample(**values).encode()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "reserved", [(0, 1 << 28), (1, 0), (0x1000_0000, 0), (0,), (0, 0, 0), (0, 1 << 32), (0, -1)]
)
def test_reserved_bits_keep_out_of_the_fields(reserved: tuple[int, ...]) -> None:
    with pytest.raises(EncodingError) as caught:
        Sample(reserved=reserved).encode()
    assert str(caught.value) == (
        f"Sample.reserved is {reserved!r}, but must be 2 words outside the fields"
    )


def test_reserved_bits_come_back() -> None:
    words = (0x50AB_CC00, 0xE000_0000)
    record = Sample.decode(words)
    assert record.reserved == (0x00AB_CC00, 0xE000_0000)
    assert record.encode() == words


def test_no_reserved_bits_is_the_empty_tuple() -> None:
    assert Sample.decode((0x5000_0000, 0)) == Sample()


def test_decoding_needs_the_right_number_of_words() -> None:
    with pytest.raises(DecodeError, match=r"^Sample has 2 words, not 1$"):
        Sample.decode((0,))


def test_records_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Sample().kind = 1  # type: ignore[misc]
