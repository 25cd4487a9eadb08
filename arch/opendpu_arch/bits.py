# SPDX-License-Identifier: Apache-2.0
"""Frozen records whose fields are bit ranges of 32-bit words, with checked encoding."""

import dataclasses
import functools
import operator
from typing import Any, ClassVar, Self, dataclass_transform

from opendpu_arch.errors import DecodeError, EncodingError

WORD_BITS = 32
_WORD = (1 << WORD_BITS) - 1


@dataclasses.dataclass(frozen=True)
class BitField:
    """Where one field lives: word, bit range, bias, meaning."""

    name: str
    word: int
    high: int
    low: int
    minus_one: bool
    doc: str
    extension: str = ""
    """The extension of ISA1 that the field belongs to; empty: the field is ISA1's."""

    @functools.cached_property
    def width(self) -> int:
        """Number of bits."""
        return self.high - self.low + 1

    @functools.cached_property
    def minimum(self) -> int:
        """Smallest value the field can carry."""
        return 1 if self.minus_one else 0

    @functools.cached_property
    def maximum(self) -> int:
        """Largest value the field can carry."""
        return (1 << self.width) - 1 + self.minimum

    @functools.cached_property
    def mask(self) -> int:
        """The bits of the field inside its word."""
        return ((1 << self.width) - 1) << self.low


def bits(
    word: int, high: int, low: int, *, doc: str, minus_one: bool = False, extension: str = ""
) -> Any:
    """Declare bits ``high..low`` of ``word``; ``minus_one`` fields store their value less one.

    Fields of an ``extension`` lie where ISA1 has no field, and AMD's compiler writes zero there.
    """
    return dataclasses.field(
        default=1 if minus_one else 0,
        metadata={
            "word": word,
            "high": high,
            "low": low,
            "minus_one": minus_one,
            "doc": doc,
            "extension": extension,
        },
    )


# `bits` is no field specifier here: type checkers then take its call for the field's default.
@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """Base of everything made of 32-bit words; subclasses are frozen, keyword-only dataclasses.

    Bits that no field claims are kept in :attr:`reserved` (one integer a word), so that what was
    decoded encodes to the same words.
    """

    WORDS: ClassVar[int] = 0
    FIXED: ClassVar[tuple[tuple[int, int], ...]] = ()
    """Constant bits as (mask, value), a pair a word, where a record has them."""

    _bit_fields: ClassVar[tuple[BitField, ...] | None] = None
    reserved: tuple[int, ...] = ()

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)

    @classmethod
    def bit_fields(cls) -> tuple[BitField, ...]:
        """Return the fields in declaration order."""
        cached: tuple[BitField, ...] | None = cls.__dict__.get("_bit_fields")
        if cached is None:
            cached = tuple(
                BitField(name=f.name, **f.metadata) for f in dataclasses.fields(cls) if f.metadata
            )
            cls._bit_fields = cached
        return cached

    @classmethod
    def values_of(cls, name: str) -> range:
        """Return the values that the field ``name`` holds."""
        (field,) = (f for f in cls.bit_fields() if f.name == name)
        return range(field.minimum, field.maximum + 1)

    @classmethod
    @functools.cache
    def _places(cls) -> tuple[tuple[str, int, int, int, int], ...]:
        """Return name, word, lowest bit, smallest and largest value of every field."""
        return tuple((f.name, f.word, f.low, f.minimum, f.maximum) for f in cls.bit_fields())

    @classmethod
    @functools.cache
    def claimed(cls) -> tuple[int, ...]:
        """Return, a word each, the bits that are constant or that some field claims."""
        masks = [mask for mask, _ in cls.FIXED] or [0] * cls.WORDS
        for f in cls.bit_fields():
            masks[f.word] |= f.mask
        return tuple(masks)

    def encode(self) -> tuple[int, ...]:
        """Return the words.

        Raises
        ------
        EncodingError
            A value is no integer or out of its field's range, or reserved bits overlap a field.
        """
        words = list(self.reserved) or [0] * self.WORDS
        claimed = self.claimed()
        if len(words) != self.WORDS or (
            self.reserved and any(w & (m | ~_WORD) for w, m in zip(words, claimed, strict=True))
        ):
            raise EncodingError(
                f"{type(self).__name__}.reserved is {self.reserved!r}, "
                f"but must be {self.WORDS} words outside the fields"
            )
        for at, (_, fixed) in enumerate(self.FIXED):
            words[at] |= fixed
        for name, word, low, minimum, maximum in self._places():
            value = getattr(self, name)
            try:
                value = operator.index(value)
            except TypeError:
                raise EncodingError(
                    f"{type(self).__name__}.{name} is {value!r}, but must be an integer"
                ) from None
            if not minimum <= value <= maximum:
                raise EncodingError(
                    f"{type(self).__name__}.{name} is {value}, but must be in {minimum}..{maximum}"
                )
            words[word] |= (value - minimum) << low
        return tuple(words)

    @classmethod
    def decode(cls, words: tuple[int, ...]) -> Self:
        """Return the record that ``words`` encode, reserved bits kept."""
        if len(words) != cls.WORDS:
            raise DecodeError(f"{cls.__name__} has {cls.WORDS} words, not {len(words)}")
        reserved = tuple([w & ~m & _WORD for w, m in zip(words, cls.claimed(), strict=True)])
        values: dict[str, Any] = {
            name: ((words[word] & mask) >> low) + minimum
            for name, word, mask, low, minimum in cls._layout()
        }
        return cls(reserved=reserved if any(reserved) else (), **values)

    @classmethod
    @functools.cache
    def _layout(cls) -> tuple[tuple[str, int, int, int, int], ...]:
        """Return (name, word, mask, low, minimum) of every field: what decoding needs at hand."""
        return tuple((f.name, f.word, f.mask, f.low, f.minimum) for f in cls.bit_fields())
