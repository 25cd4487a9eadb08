# SPDX-License-Identifier: Apache-2.0
"""DDR as programs see it: byte arrays behind address registers, accessed pixel by pixel."""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from opendpu_arch.errors import AddressError

Bytes = npt.NDArray[np.uint8]


@dataclasses.dataclass(frozen=True)
class Access:
    """The bytes that one LOAD or SAVE touches: ``length`` runs of ``size``, ``jump`` apart."""

    number: int
    """Which instruction of the program."""
    mnemonic: str
    reg_id: int
    address: int
    length: int
    size: int
    jump: int

    @property
    def end(self) -> int:
        """Byte after the last one."""
        return self.address + (self.length - 1) * self.jump + self.size

    @property
    def bytes(self) -> int:
        """Bytes moved, repeated ones included."""
        return self.length * self.size


class Bounds:
    """How large every segment must be for a program's accesses to stay inside."""

    def __init__(self, accesses: Iterable[Access]) -> None:
        self._accesses = tuple(accesses)
        self.needed: dict[int, int] = {}
        for access in self._accesses:
            self.needed[access.reg_id] = max(self.needed.get(access.reg_id, 0), access.end)

    def check(self, segments: Mapping[int, Bytes]) -> None:
        """Check the segments of one run.

        Raises
        ------
        AddressError
            A segment is missing, is not a contiguous one-dimensional uint8 array, is read-only
            though SAVE writes it, or an instruction reaches beyond it.
        """
        for reg_id, needed in self.needed.items():
            if reg_id not in segments:
                first = next(a for a in self._accesses if a.reg_id == reg_id)
                raise AddressError(
                    f"instruction {first.number} ({first.mnemonic}): reg_id is {reg_id}, but the "
                    f"job has only segments {sorted(segments)}"
                )
            segment = segments[reg_id]
            if segment.dtype != np.uint8 or segment.ndim != 1 or not segment.flags.c_contiguous:
                raise AddressError(
                    f"segment {reg_id} is {segment.dtype} of shape {segment.shape}, "
                    "but must be contiguous one-dimensional uint8"
                )
            if not segment.flags.writeable:
                for access in self._accesses:
                    if access.reg_id == reg_id and access.mnemonic == "SAVE":
                        raise AddressError(
                            f"segment {reg_id} is read-only, "
                            f"but instruction {access.number} writes it"
                        )
            if needed > segment.size:
                bad = next(a for a in self._accesses if a.reg_id == reg_id and a.end > segment.size)
                raise AddressError(
                    f"instruction {bad.number} ({bad.mnemonic}): ddr_addr {bad.address:#x} with "
                    f"{bad.length} pixels of {bad.size} bytes, {bad.jump} apart, ends at "
                    f"{bad.end:#x}, but segment {reg_id} has {segment.size:#x} bytes"
                )


def pixels(segment: Bytes, access: Access) -> Bytes:
    """Return the bytes of ``access`` as a (length, size) view of ``segment``; rows may overlap."""
    return np.ndarray(
        (access.length, access.size), np.uint8, segment, access.address, (access.jump, 1)
    )
