# SPDX-License-Identifier: Apache-2.0
"""The longest paths between registers of a netlist that Yosys wrote as JSON.

A path begins at an output of a register, block RAM or registered DSP block, goes through cells
that answer without a clock, and ends at an input of such a register. What each cell adds is told
by a technology: :data:`XCUP` counts levels of LUTs, :data:`ECP5` estimates picoseconds.
"""

import collections
import copy
import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Arcs = list[tuple[list[str], list[str], float]]
"""From which ports of a cell to which others there is a way without a clock, and what it costs."""


@dataclasses.dataclass(frozen=True)
class Technology:
    """How a device's cells count.

    Attributes
    ----------
    arcs
        The arcs of a cell, from its type, parameters, input ports and output ports.
    start
        What a path costs before its first cell, from the type of the cell that it comes from.
    """

    arcs: Callable[[str, Mapping[str, Any], list[str], list[str]], Arcs]
    start: Callable[[str], float]


@dataclasses.dataclass(frozen=True)
class Path:
    """The longest path that ends at a register.

    Attributes
    ----------
    cost
        In what the technology counts.
    begin, end
        Names of the registers, ``end`` without the number of its bit.
    through
        Names of nets on the way.
    cells
        How often each type of cell is on it.
    """

    cost: float
    begin: str
    end: str
    through: tuple[str, ...]
    cells: Mapping[str, int]

    def __str__(self) -> str:
        cells = ", ".join(f"{n} {kind}" for kind, n in sorted(self.cells.items()))
        return f"{self.cost:g}: {self.begin} to {self.end} ({cells})"


def _number(parameters: Mapping[str, Any], name: str) -> int:
    value = parameters.get(name, 0)
    return int(value, 2) if isinstance(value, str) else int(value)


def _starting(ports: Iterable[str], *prefixes: str) -> list[str]:
    return [port for port in ports if port.startswith(prefixes)]


def _xcup(kind: str, parameters: Mapping[str, Any], ins: list[str], outs: list[str]) -> Arcs:
    if re.fullmatch(r"LUT\d", kind):
        return [(ins, outs, 1)]
    if kind == "INV" or kind.startswith("MUXF"):
        return [(ins, outs, 0)]
    if kind.startswith("CARRY"):
        return [(_starting(ins, "CI"), outs, 0), (_starting(ins, "S", "DI"), outs, 1)]
    if re.fullmatch(r"RAM\d+M\d*", kind):
        return [([f"ADDR{x}"], _starting(outs, f"DO{x}"), 1) for x in "ABCDEFGH"]
    if re.fullmatch(r"RAM\d+X1D", kind):
        return [(_starting(ins, "DPRA"), ["DPO"], 1), (_starting(ins, "A"), ["SPO"], 1)]
    if re.fullmatch(r"RAM\d+X1S", kind):
        return [(_starting(ins, "A"), ["O"], 1)]
    if kind.startswith("SRL"):
        return [(_starting(ins, "A"), ["Q"], 1)]
    return _dsp48(parameters, outs) if kind == "DSP48E2" else []


def _dsp48(parameters: Mapping[str, Any], outs: list[str]) -> Arcs:
    """Return the ways through a DSP block whose registers are off: three levels."""
    if _number(parameters, "PREG"):
        return []
    out = [port for port in outs if port == "P" or port.startswith("PCOUT")]
    open_ports = [port for port in ("A", "B", "C") if not _number(parameters, f"{port}REG")]
    if _number(parameters, "MREG"):
        open_ports = [port for port in open_ports if port == "C"]
    return [(open_ports, out, 3), (["PCIN"], out, 1)]


_WIRE = 1100


def _ecp5(kind: str, parameters: Mapping[str, Any], ins: list[str], outs: list[str]) -> Arcs:
    if kind == "LUT4":
        return [(ins, outs, 240 + _WIRE)]
    if kind in ("PFUMX", "L6MUX21"):  # beside their LUTs, but for what they select by
        select = [port for port in ins if port in ("C0", "SD")]
        return [(select, outs, 240 + _WIRE), ([p for p in ins if p not in select], outs, 200)]
    if kind == "CCU2C":
        data = [port for port in ins if port != "CIN"]
        sums = [port for port in outs if port != "COUT"]
        return [
            (data, ["COUT"], 450), (data, sums, 700 + _WIRE),
            (["CIN"], ["COUT"], 70), (["CIN"], sums, 440 + _WIRE),
        ]  # fmt: skip
    if kind == "TRELLIS_DPR16X4":
        return [(["RAD"], ["DO"], 240 + _WIRE)]
    if kind == "MULT18X18D":
        return [([p for p in ins if re.fullmatch(r"[AB]\d+", p)], outs, 3930 + _WIRE)]
    return []


XCUP = Technology(_xcup, lambda kind: 0)
"""UltraScale+: a LUT and a carry chain are a level each, a DSP block without registers three."""
ECP5 = Technology(_ecp5, lambda kind: (5730 if kind == "DP16KD" else 520) + _WIRE)
"""ECP5, speed 6, in ps: delays of cells as nextpnr says them, 1.1 ns for each wire."""

_MADE = re.compile(r"\$|(^|\.)_\d+_$|_(LUT\d|CCU2C|PFUMX|L6MUX21|TRELLIS_FF|CARRY\d)(_|$)")
"""Names that Yosys makes for nets that had none."""
_CLOCK_PORTS = ("CLK", "CLKARDCLK", "CLKBWRCLK", "WCLK", "CLKA", "CLKB", "WCK", "C")
"""Where a cell has its clock, the first that it has: ``C`` of a DSP block is an operand."""


class Netlist:
    """A module of Yosys's JSON whose cells are all primitives of a device.

    Parameters
    ----------
    design
        What ``write_json`` wrote.
    top
        The module.
    technology
        The device.
    """

    def __init__(self, design: Mapping[str, Any], top: str, technology: Technology) -> None:
        module = design["modules"][top]
        self._technology = technology
        self._launching: str | None = None
        self._cells: dict[str, Any] = module["cells"]
        self._names = _names(module["netnames"])
        self._driver: dict[int, tuple[str, str]] = {}
        self._into: dict[str, dict[str, list[tuple[list[str], float]]]] = {}
        for name, cell in self._cells.items():
            outs, ins = self._ports(name, "output"), self._ports(name, "input")
            into = self._into[name] = {}
            for sources, targets, cost in technology.arcs(
                cell["type"], cell.get("parameters", {}), ins, outs
            ):
                for port in targets:
                    into.setdefault(port, []).append((sources, cost))
            for port in outs:
                for bit in cell["connections"].get(port, ()):
                    self._driver[bit] = (name, port)
        self._find_best()

    def _find_best(self) -> None:
        self._best: dict[int, tuple[float, int | None]] = {}
        for start in self._driver:
            self._arrive(start)

    def clocks(self) -> list[str]:
        """Return the names of all clocks."""
        return sorted({clock for name in self._cells if (clock := self._clock(name))})

    def launched_by(self, clock: str) -> "Netlist":
        """Return the same, but only paths that begin at registers of a clock count."""
        made = copy.copy(self)
        made._launching = clock
        made._find_best()
        return made

    def longest(self, count: int, captured_by: str | None = None) -> list[Path]:
        """Return the longest paths, the worst first, one for each register that they end at.

        With ``captured_by`` only registers of that clock count.
        """
        ends: dict[str, tuple[float, int]] = {}
        for name in self._cells:
            if captured_by is not None and self._clock(name) != captured_by:
                continue
            through = {p for ways in self._into[name].values() for ins, _ in ways for p in ins}
            reached = [
                (self._best[bit][0], bit)
                for bit in self._bits(name, set(self._ports(name, "input")) - through)
            ]
            if reached and max(reached)[0] >= 0:
                worst, register = max(reached), self._register(name)
                ends[register] = max(ends.get(register, worst), worst)
        worst_first = sorted(ends.items(), key=lambda item: -item[1][0])[:count]
        return [self._path(end, bit, cost) for end, (cost, bit) in worst_first]

    def _clock(self, cell: str) -> str | None:
        """Return the name of a cell's clock, if it has one."""
        connections = self._cells[cell]["connections"]
        bits = (bit for port in _CLOCK_PORTS for bit in connections.get(port, ()))
        return next((self._names[bit] for bit in bits if bit in self._names), None)

    def _ports(self, cell: str, way: str) -> list[str]:
        return [p for p, w in self._cells[cell]["port_directions"].items() if w == way]

    def _arrive(self, start: int) -> None:
        """Find the longest way to a net, and so to all before it; note the net it comes from."""
        stack = [start]
        on_the_way: set[int] = set()
        while stack:
            bit = stack[-1]
            if bit not in self._best:
                name, port = self._driver[bit]
                before = [
                    (source, cost)
                    for ins, cost in self._into[name].get(port, ())
                    for source in self._bits(name, ins)
                ]
                missing = [source for source, _ in before if source not in self._best]
                if missing:
                    if bit in on_the_way:
                        raise ValueError(f"{self._name(bit)} depends on itself")
                    on_the_way.add(bit)
                    stack.extend(missing)
                    continue
                if before:
                    self._best[bit] = max(
                        ((self._best[source][0] + cost, source) for source, cost in before),
                        key=lambda item: item[0],
                    )
                elif self._launching in (None, self._clock(name)):
                    self._best[bit] = (self._technology.start(self._cells[name]["type"]), None)
                else:
                    self._best[bit] = (-math.inf, None)
            stack.pop()

    def _bits(self, cell: str, ports: Iterable[str]) -> list[int]:
        """Return the nets at ports of a cell, but for constants and the module's inputs."""
        connections = self._cells[cell]["connections"]
        return [bit for port in ports for bit in connections.get(port, ()) if bit in self._driver]

    def _name(self, bit: int) -> str:
        return self._names.get(bit) or self._driver[bit][0]

    def _register(self, cell: str) -> str:
        """Return the name of what a register holds, without the number of its bit."""
        bits = self._bits(cell, self._ports(cell, "output"))
        named = next((self._names[bit] for bit in bits if bit in self._names), cell)
        return re.sub(r"(\[\d+\])+$", "", named)

    def _path(self, end: str, bit: int, cost: float) -> Path:
        way = [bit]
        while (before := self._best[way[-1]][1]) is not None:
            way.append(before)
        way.reverse()
        cells = collections.Counter(self._cells[self._driver[b][0]]["type"] for b in way[1:])
        names = tuple(dict.fromkeys(self._names[b] for b in way[1:] if b in self._names))
        return Path(cost, self._name(way[0]), end, names, cells)


def _names(netnames: Mapping[str, Any]) -> dict[int, str]:
    """Return the names of nets that someone gave: the one furthest up, then the shortest."""
    found: dict[int, tuple[tuple[int, int], str]] = {}
    for name, net in netnames.items():
        if net.get("hide_name") or _MADE.search(name):
            continue
        rank = (name.count("."), len(name))
        for i, bit in enumerate(net["bits"]):
            if not isinstance(bit, str) and (bit not in found or rank < found[bit][0]):
                found[bit] = (rank, f"{name}[{i}]" if len(net["bits"]) > 1 else name)
    return {bit: text for bit, (_, text) in found.items()}
