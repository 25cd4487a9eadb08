# SPDX-License-Identifier: Apache-2.0
"""A tree of Amaranth components as RTLIL modules: one for each distinct component.

Amaranth flattens a design before it writes it: every instance becomes a module of its own, with
ports that are cut out of nets. Here each component is converted alone, its ports are its members,
and components that come out equal share a module.
"""

import re
from types import NoneType

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, ClockSignal, Instance, ResetSignal, Value
from amaranth.hdl._ast import SignalDict, SignalSet
from amaranth.hdl._ir import Fragment, PortDirection
from amaranth.hdl._xfrm import ResetInserter, TransformedElaboratable
from amaranth.lib import wiring
from amaranth.lib.fifo import FIFOInterface
from amaranth.lib.memory import Memory

from opendpu_arch.target import Target
from opendpu_hw.double_rate import DOMAIN, DOUBLED_CLOCK

_HEADER = re.compile(r"^attribute \\top 1\nmodule \\(\S+)\n", re.M)
_PORT = re.compile(r"^(  wire width \d+ (?:input|output)) \d+ ( *(?:signed )?)\\(\S+)$", re.M)
_OF_AMARANTH = ("_Component__", "_MustUse__")
_FIFO = {
    "w_data": PortDirection.Input, "w_en": PortDirection.Input, "w_rdy": PortDirection.Output,
    "w_level": PortDirection.Output, "r_data": PortDirection.Output, "r_en": PortDirection.Input,
    "r_rdy": PortDirection.Output, "r_level": PortDirection.Output, "level": PortDirection.Output,
}


def ports_of(component):
    """Return the ports of a component, nested members joined by ``_``.

    Returns
    -------
    dict of str to (value, direction)
        As :func:`amaranth.back.rtlil.convert` takes it, in the order of the signature.
    """
    if isinstance(component, FIFOInterface):        # older than signatures
        return {name: (getattr(component, name), direction) for name, direction in _FIFO.items()
                if hasattr(component, name)}
    ports = {}
    for path, member, value in component.signature.flatten(component):
        direction = PortDirection.Input if member.flow == wiring.In else PortDirection.Output
        ports["_".join(map(str, path))] = (Value.cast(value), direction)
    return ports


def to_rtlil(component, name):
    """Return the RTLIL of a component and all below it; ``name`` is that of its module."""
    design = _Design(name)
    fragment = design.convert(component, Fragment.get(component, None))
    design.check_boundaries()
    return "\n".join([*design.texts.values(), f"attribute \\top 1\nmodule \\{name}\n{fragment}"])


class _Design:
    """The modules found so far.

    Attributes
    ----------
    texts : dict of str to str
        RTLIL of each module below the top by the name it got.
    """

    def __init__(self, top):
        self.texts = {}
        self._top = top
        self._names = {}        # text after the module's first line -> name
        self._made = {}         # what tells components of a class apart -> such a text
        self._driver = SignalDict()
        self._reads = []        # class name of a component, signals it reads and does not drive

    def convert(self, component, fragment):
        """Return what follows the first line of a component's module."""
        for index, (inner, name, src_loc) in enumerate(fragment.subfragments):
            below, reset = _component_of(inner)
            if below is not None:
                if reset is not None:   # without what ResetInserter put into it
                    inner = Fragment.get(below, None)
                instance = self._instance(below, inner, reset, name or f"u{index}")
                fragment.subfragments[index] = (instance, name, src_loc)
        ports = ports_of(component)
        if not fragment.domains:        # who makes the clock only wires
            self._note_signals(type(component).__name__, fragment, ports)
        text, _ = rtlil.convert_fragment(
            fragment, ports, self._top, emit_src=False,
            missing_domain=lambda domain: ClockDomain(domain, reset_less=domain == DOMAIN))
        order = {name: at for at, name in enumerate(["clk", "rst", DOUBLED_CLOCK, *ports], 1)}
        return _PORT.sub(lambda port: f"{port[1]} {order[port[3]]} {port[2]}\\{port[3]}",
                         text[_HEADER.search(text).end():])

    def _instance(self, component, fragment, reset, name):
        """Convert a component; return an instance of its module that drives its members."""
        configuration = _configuration(component)
        text = self._made.get(configuration) or self.convert(component, fragment)
        if configuration is not None:
            self._made[configuration] = text
        if text not in self._names:
            self._names[text] = module = self._unused(type(component).__name__)
            self.texts[module] = f"module \\{module}\n{text}"
        ports = ports_of(component)
        for port, (value, _) in ports.items():
            value.name = f"{name}_{port}"       # its net in the module above
        domain = {"clk": ClockSignal(), "rst": ResetSignal() if reset is None
                  else ResetSignal() | reset,
                  DOUBLED_CLOCK: ClockSignal(DOMAIN)}
        return Instance(
            self._names[text],
            *(("i" if direction == PortDirection.Input else "o", port, value)
              for port, (value, direction) in ports.items()),
            *(("i", port, domain[port]) for *_, port in _PORT.findall(text) if port in domain))

    def _note_signals(self, name, fragment, ports):
        """Remember what a component drives, and what it reads that comes from elsewhere."""
        read, driven = SignalSet(), SignalSet()
        for statement in (s for group in fragment.statements.values() for s in group):
            read.update(statement._rhs_signals())
            driven.update(statement._lhs_signals())
        for signal in driven:
            self._driver[signal] = name
        for inner, *_ in fragment.subfragments:
            if isinstance(inner, Instance):
                outputs = (value for value, kind in inner.ports.values() if kind == "o")
                driven.update(signal for value in outputs for signal in value._rhs_signals())
        driven.update(signal for value, direction in ports.values()
                      if direction == PortDirection.Input for signal in value._rhs_signals())
        self._reads.append((name, [signal for signal in read if signal not in driven]))

    def check_boundaries(self):
        """Raise an error if a component reads another one's signal that is no port of it."""
        for name, signals in self._reads:
            for signal in signals:
                if signal in self._driver:
                    raise NotImplementedError(
                        f"{name} reads {signal.name!r} of {self._driver[signal]}, which is no port")

    def _unused(self, class_name):
        """Return a module name from a class name; a second variant of a class gets a number."""
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", class_name)
        base = f"opendpu_{words.strip('_').lower()}"
        taken = {*self.texts, self._top}
        return next(name for name in (base, *(f"{base}_{n}" for n in range(2, len(taken) + 3)))
                    if name not in taken)


def _configuration(component):
    """Return class and parameters of a component, or None where they are no plain values.

    Components that agree in them elaborate to the same module; converting them is what takes time.
    """
    if not isinstance(component, wiring.Component):
        return None
    given = {name: value for name, value in vars(component).items()
             if name not in component.signature.members and not name.startswith(_OF_AMARANTH)}
    plain = int | str | NoneType | Target
    if not all(isinstance(value, plain) for value in given.values()):
        return None
    return type(component), repr(component.signature), repr(sorted(given.items()))


def _component_of(fragment):
    """Return the component that a fragment came from, and what resets it beside its domain.

    Memories stay with the component that has them.
    """
    reset = None
    for origin in getattr(fragment, "origins", None) or ():
        if isinstance(origin, TransformedElaboratable):
            (transform,) = origin._transforms_
            if not isinstance(transform, ResetInserter) or [*transform.controls] != ["sync"]:
                raise NotImplementedError(f"{transform!r} of {origin._elaboratable_!r}")
            reset, origin = transform.controls["sync"], origin._elaboratable_
        if isinstance(origin, wiring.Component | FIFOInterface):
            return (None, None) if isinstance(origin, Memory) else (origin, reset)
    return None, None
