# SPDX-License-Identifier: Apache-2.0
"""Lists where AMD's module returns sets: in one order, and with the operators of sets."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

T = TypeVar("T")


class Members(list[T]):
    """Different things in the order in which they were added.

    ``a & b``, ``a | b``, ``a - b`` and ``a ^ b`` take sets on either side and return a set, as do
    the methods of these meanings.
    """

    __slots__ = ()

    def union(self, *others: Iterable[T]) -> set[T]:
        """Return what is here or in any of the others."""
        return set(self).union(*others)

    def intersection(self, *others: Iterable[Any]) -> set[T]:
        """Return what is here and in all of the others."""
        return set(self).intersection(*others)

    def difference(self, *others: Iterable[Any]) -> set[T]:
        """Return what is here and in none of the others."""
        return set(self).difference(*others)

    def symmetric_difference(self, other: Iterable[T]) -> set[T]:
        """Return what is here or in the other, but not in both."""
        return set(self).symmetric_difference(other)

    def isdisjoint(self, other: Iterable[Any]) -> bool:
        """Return whether nothing is here and in the other."""
        return set(self).isdisjoint(other)

    def issubset(self, other: Iterable[Any]) -> bool:
        """Return whether all is in the other."""
        return set(self).issubset(other)

    def issuperset(self, other: Iterable[Any]) -> bool:
        """Return whether all of the other is here."""
        return set(self).issuperset(other)

    def __and__(self, other: "AbstractSet[Any] | Members[Any]") -> set[T]:
        return self.intersection(other) if _is_set(other) else NotImplemented

    def __or__(self, other: "AbstractSet[T] | Members[T]") -> set[T]:
        return self.union(other) if _is_set(other) else NotImplemented

    def __xor__(self, other: "AbstractSet[T] | Members[T]") -> set[T]:
        return self.symmetric_difference(other) if _is_set(other) else NotImplemented

    def __sub__(self, other: "AbstractSet[Any] | Members[Any]") -> set[T]:
        return self.difference(other) if _is_set(other) else NotImplemented

    def __rsub__(self, other: AbstractSet[T]) -> set[T]:
        return set(other).difference(self) if _is_set(other) else NotImplemented

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__


def _is_set(value: object) -> bool:
    return isinstance(value, AbstractSet | Members)
