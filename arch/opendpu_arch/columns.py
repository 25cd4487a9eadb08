# SPDX-License-Identifier: Apache-2.0
"""Programs as arrays: for every kind of instruction, a column for each field.

What would be asked of some hundred thousand instructions one by one is asked of columns instead.
"""

import dataclasses
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu_arch.bits import BitField, Record

Int64Array = npt.NDArray[np.int64]


class Columns:
    """The fields of records of several kinds.

    Parameters
    ----------
    records
        Such as the instructions of a program.
    given
        Values of fields that all records have, one a record, which count instead of their own.

    Raises
    ------
    EncodingError
        A field is no integer.
    """

    def __init__(
        self, records: Sequence[Record], given: Mapping[str, Sequence[int]] | None = None
    ) -> None:
        self.records = records
        self._given = given or {}
        places: dict[type[Record], list[int]] = {}
        for number, record in enumerate(records):
            places.setdefault(type(record), []).append(number)
        self.numbers: dict[type[Record], Int64Array] = {
            kind: np.array(found, np.int64) for kind, found in places.items()
        }
        """By kind, the numbers of its records."""
        self._tables = {kind: self._table(kind, found) for kind, found in places.items()}

    def _table(self, kind: type[Record], numbers: Sequence[int]) -> dict[str, npt.NDArray[Any]]:
        names = [field.name for field in kind.bit_fields()]
        fields = operator.attrgetter(names[0], *names)  # a tuple, of however few
        try:
            found = np.array([fields(self.records[number]) for number in numbers])
        except (OverflowError, TypeError, ValueError):
            found = np.empty(0)
        if found.dtype.kind not in "bi":
            for number in numbers:
                self.records[number].encode()  # raises at the first that has such a field
        places = np.array(numbers)
        table = dict(zip(names, _narrow(found.T[1:]), strict=True))
        return table | {name: np.array(v)[places] for name, v in self._given.items()}

    def column(self, kind: type[Record], name: str) -> Int64Array:
        """Return the values of a field of all records of a kind, in order."""
        if kind not in self._tables:
            return np.empty(0, np.int64)
        return self._tables[kind][name].astype(np.int64)

    def record(self, number: int) -> Record:
        """Return a record with the values that count."""
        own: dict[str, Any] = {name: values[number] for name, values in self._given.items()}
        return dataclasses.replace(self.records[number], **own) if own else self.records[number]

    def encode(self) -> bytes:
        """Return the words of all records, one after the other, little-endian.

        Raises
        ------
        EncodingError
            As of :meth:`Record.encode`, for the first record that has no words.
        """
        size = np.empty(len(self.records), np.int64)
        for kind, numbers in self.numbers.items():
            size[numbers] = kind.WORDS
        begin = np.cumsum(size) - size
        code = np.empty(int(size.sum()), "<u4")
        odd: list[int] = []
        for kind, numbers in self.numbers.items():
            words, plain = self._words(kind)
            code[begin[numbers][:, np.newaxis] + np.arange(kind.WORDS)] = words
            odd += numbers[~plain].tolist()
        for number in sorted(odd):
            one = self.record(number).encode()
            code[begin[number] : begin[number] + len(one)] = one
        return code.tobytes()

    def _words(self, kind: type[Record]) -> tuple[Int64Array, npt.NDArray[np.bool_]]:
        """Return the words of all records of a kind, a row each, and for which they are right.

        They are not where a value is out of range, or reserved bits are set.
        """
        numbers = self.numbers[kind]
        words = np.zeros((numbers.size, kind.WORDS), np.int64)
        plain = np.array([not self.records[number].reserved for number in numbers.tolist()])
        for place, (_, fixed) in enumerate(kind.FIXED):
            words[:, place] = fixed
        for field in kind.bit_fields():
            value = self.column(kind, field.name)
            plain &= (value >= field.minimum) & (value <= field.maximum)
            words[:, field.word] |= _placed(field, value)
        return words, plain


def _narrow(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return integers in as few bytes as all of them need: programs are long."""
    small = np.iinfo(np.int32)
    fits = bool(((values >= small.min) & (values <= small.max)).all())
    return np.ascontiguousarray(values, np.int32 if fits else np.int64)


def _placed(field: BitField, value: Int64Array) -> Int64Array:
    """Return values of a field as bits of its word."""
    found: Int64Array = (value - field.minimum & (1 << field.width) - 1) << field.low
    return found
