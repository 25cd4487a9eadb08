# SPDX-License-Identifier: Apache-2.0
"""The boards: each fact about one is written here and nowhere else."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from opendpu_arch.errors import UnsupportedError
from opendpu_arch.target import Target


@dataclasses.dataclass(frozen=True)
class Resources:
    """What a device has: LUTs, DSP blocks, block RAMs and UltraRAMs, as its data sheet counts."""

    lut: int
    dsp: int
    block_ram: float
    ultra_ram: int = 0


@dataclasses.dataclass(frozen=True)
class Pin:
    """A pin of the board that a design has to drive with a constant.

    Attributes
    ----------
    port, site, standard
        Its name in the design, its package pin, its I/O standard.
    value
        The constant.
    reason
        Why.
    """

    port: str
    site: str
    standard: str
    value: int
    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Board:
    """What every board has.

    Attributes
    ----------
    name, title
        On the command line; for people.
    part
        The device, as the vendor's tools spell it.
    resources
        What it has.
    memory_bytes
        Of the DRAM that the DPU shares.
    clock_mhz
        Clock of the DPU where none is asked for.
    clock_range_mhz
        Least and largest clock that may be asked for.
    vendor
        Whose primitives its device has.
    options
        Sizes of the DPU that fit only with other options than the usual ones, and these; see
        :mod:`opendpu_hw.options`.
    """

    name: str
    title: str
    part: str
    resources: Resources
    memory_bytes: int
    clock_mhz: float
    clock_range_mhz: tuple[float, float] = (1, 400)
    vendor: ClassVar[str]
    options: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    def options_of(self, target: Target) -> dict[str, Any]:
        """Return how a target is built for the board where nobody says anything else."""
        return dict(self.options.get(f"B{target.peak}", {}))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ZynqBoard(Board):
    """A board with a Zynq UltraScale+: processor and DPU share its DDR.

    Attributes
    ----------
    board_part
        Vivado's name of its board files, without their version.
    pins
        Pins of the programmable logic that need a level.
    """

    vendor: ClassVar[str] = "xilinx"
    board_part: str
    pins: tuple[Pin, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class LitexBoard(Board):
    """A board without a processor: LiteX makes the system, a host talks to it.

    Attributes
    ----------
    platform
        Module of ``litex_boards.platforms``, which knows its pins.
    device, revision
        Arguments of that platform.
    sdram
        Class of ``litedram.modules``.
    baud
        Of the bridge, bits a second.
    """

    vendor: ClassVar[str] = "ecp5"
    platform: str
    device: str
    revision: str
    sdram: str
    baud: int


_FAN = Pin("fan_en_b", "A12", "LVCMOS33", 0, "the fan of the carrier card, low is on")

#: Devices after DS890, DS987 (K26) and FPGA-DS-02012 (ECP5); the rest after the boards' guides.
BOARDS = {
    board.name: board for board in (
        ZynqBoard(
            name="kv260", title="AMD Kria KV260", part="xck26-sfvc784-2LV-c",
            board_part="xilinx.com:kv260_som:part0",
            resources=Resources(lut=117_120, dsp=1248, block_ram=144, ultra_ram=64),
            memory_bytes=4 << 30, clock_mhz=100, pins=(_FAN,),
            # image banks and, of the larger two, eight of CONVW: 48 of 64 UltraRAMs
            options={"B2304": {"ultra_ram": 16}, "B3136": {"ultra_ram": 24},
                     "B4096": {"ultra_ram": 24, "window": False}}),
        ZynqBoard(
            name="zcu104", title="AMD ZCU104", part="xczu7ev-ffvc1156-2-e",
            board_part="xilinx.com:zcu104:part0",
            resources=Resources(lut=230_400, dsp=1728, block_ram=312, ultra_ram=96),
            memory_bytes=2 << 30, clock_mhz=100),
        ZynqBoard(
            name="ultra96v2", title="Avnet Ultra96-V2", part="xczu3eg-sbva484-1-i",
            board_part="avnet.com:ultra96v2:part0",
            resources=Resources(lut=70_560, dsp=360, block_ram=216),
            memory_bytes=2 << 30, clock_mhz=100,
            options={"B1024": {"window": False}, "B1152": {"window": False}}),
        LitexBoard(
            name="ulx3s", title="Radiona ULX3S 85F", part="LFE5U-85F-6BG381C",
            platform="radiona_ulx3s", device="LFE5U-85F", revision="2.0",
            sdram="MT48LC16M16",
            resources=Resources(lut=83_640, dsp=156, block_ram=208),
            # SDRAM is refreshed every 7.8 us, and is one of 133 MHz
            memory_bytes=32 << 20, clock_mhz=25, clock_range_mhz=(13, 133), baud=1_000_000),
    )
}


def find_board(name: str) -> Board:
    """Return the board of a name.

    Raises
    ------
    UnsupportedError
        There is none.
    """
    try:
        return BOARDS[name]
    except KeyError:
        raise UnsupportedError(
            f"no board is called {name!r}; known: {', '.join(BOARDS)}") from None
