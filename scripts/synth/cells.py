# SPDX-License-Identifier: Apache-2.0
"""From Yosys's cells to what a device is counted in."""

import dataclasses
from collections.abc import Mapping

_LUTRAM = {
    "RAM32M": 4,
    "RAM32M16": 8,
    "RAM64M": 4,
    "RAM64M8": 8,
    "RAM32X1S": 1,
    "RAM32X1D": 2,
    "RAM64X1S": 1,
    "RAM64X1D": 2,
    "RAM128X1S": 2,
    "RAM128X1D": 4,
    "RAM256X1S": 4,
    "RAM512X1S": 8,
}
"""LUTs of a memory of LUTs."""
_RAM = {"RAMB36E2": 1.0, "RAMB18E2": 0.5}
_REGISTERS = ("FDRE", "FDSE", "FDCE", "FDPE", "LDCE", "LDPE")


@dataclasses.dataclass(frozen=True)
class Resources:
    """What a module or a device has: LUTs (those of LUTRAM and shift registers included), FFs."""

    lut: int = 0
    ff: int = 0
    dsp: int = 0
    bram36: float = 0
    uram: int = 0

    def __add__(self, other: "Resources") -> "Resources":
        return Resources(
            *(a + b for a, b in zip(_values(self), _values(other), strict=True))  # type: ignore[arg-type]
        )

    def times(self, count: int) -> "Resources":
        """Return ``count`` times as much."""
        return Resources(*(value * count for value in _values(self)))  # type: ignore[arg-type]


def _values(resources: Resources) -> tuple[float, ...]:
    return dataclasses.astuple(resources)


def count(cells: Mapping[str, int]) -> Resources:
    """Return the resources of cells of the UltraScale+ library, instances of modules left out."""
    lut = sum(n for name, n in cells.items() if name[:3] == "LUT" and name[3:].isdigit())
    lut += sum(n for name, n in cells.items() if name.startswith("SRL"))
    lut += sum(n * _LUTRAM[name] for name, n in cells.items() if name in _LUTRAM)
    return Resources(
        lut=lut,
        ff=sum(n for name, n in cells.items() if name in _REGISTERS),
        dsp=cells.get("DSP48E2", 0),
        bram36=sum(n * _RAM[name] for name, n in cells.items() if name in _RAM),
        uram=sum(n for name, n in cells.items() if name in ("URAM288", "URAM288_BASE")),
    )


def total(
    modules: Mapping[str, Mapping[str, int]], top: str
) -> tuple[dict[str, int], dict[str, Resources], Resources]:
    """Return instances and own resources of each module below ``top``, and the sum of all.

    Parameters
    ----------
    modules
        Cells of each module, by their type; a type that is itself a module is an instance.
    """
    instances = dict.fromkeys(modules, 0)

    def visit(name: str) -> None:
        instances[name] += 1
        for kind, n in modules[name].items():
            for _ in range(n if kind in modules else 0):
                visit(kind)

    visit(top)
    own = {name: count(cells) for name, cells in modules.items() if instances[name]}
    together = Resources()
    for name, resources in own.items():
        together += resources.times(instances[name])
    return {name: instances[name] for name in own}, own, together
