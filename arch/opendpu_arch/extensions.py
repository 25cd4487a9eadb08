# SPDX-License-Identifier: Apache-2.0
"""Extensions of ISA1: options of a target that AMD's DPU does not have."""

import enum
from collections.abc import Iterable

from opendpu_arch.errors import TargetError

FEATURE_BASE = 44
"""Feature code bit of the first extension; AMD sets none of the bits from here on."""


class Extension(enum.IntEnum):
    """What a target may have beyond ISA1; the value is its bit in the register EXTENSIONS."""

    TABLE = 0
    CHANNEL = 1
    SCALED = 2

    @property
    def label(self) -> str:
        """Name in a target's name and in messages."""
        return self.name.lower()

    @property
    def meaning(self) -> str:
        """What it adds, for the reference pages."""
        return _MEANING[self]

    @property
    def banks(self) -> int:
        """Banks that it adds behind BIAS."""
        return _BANKS.get(self, 1)

    @property
    def feature_bit(self) -> int:
        """Its bit in the feature code."""
        return FEATURE_BASE + self.value


_BANKS = {Extension.SCALED: 2}
_MEANING = {
    Extension.TABLE: "Results of CONV, ALU, POOL, DPTWISE and ELEW can go through a table.",
    Extension.CHANNEL: "CONV, DWCV and DPTWISE have shifts of their own for each output channel.",
    Extension.SCALED: "CONV, ALU and ELEW can have multipliers, 32-bit biases and zero points.",
}


def extension(label: str) -> Extension:
    """Return the extension that is called ``label``; case does not matter.

    Raises
    ------
    TargetError
        There is none.
    """
    for known in Extension:
        if label.lower() == known.label:
            return known
    raise TargetError(
        f"no extension is called {label!r}; known: {', '.join(e.label for e in Extension)}",
        code="TARGET_FACTORY_UNREGISTERED_TARGET",
    )


def feature_bits(extensions: Iterable[Extension]) -> int:
    """Return the feature code bits of some extensions."""
    return sum(1 << e.feature_bit for e in extensions)


def in_feature_code(feature_code: int) -> frozenset[Extension]:
    """Return the extensions whose bits a feature code has."""
    return frozenset(e for e in Extension if feature_code >> e.feature_bit & 1)
