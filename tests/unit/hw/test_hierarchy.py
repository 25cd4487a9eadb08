# SPDX-License-Identifier: Apache-2.0
"""Modules of the Verilog: one a distinct component, its members as ports."""

import re

import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import Component, In, Out

from opendpu_arch.target import Target
from opendpu_hw.hierarchy import to_rtlil
from opendpu_hw.top import Top
from opendpu_hw.verilog import to_verilog


class Counter(Component):
    def __init__(self, step):
        self._step = step
        super().__init__({"enable": In(1), "count": Out(8)})

    def elaborate(self, platform):
        m = Module()
        self.inner = Signal(8)
        with m.If(self.enable):
            m.d.sync += self.count.eq(self.count + self._step)
        m.d.comb += self.inner.eq(~self.count)
        return m


class Parent(Component):
    """Counters with the steps given; ``clear`` resets the first."""

    def __init__(self, steps, *, look_inside=False, fifo=False):
        self._steps, self._look, self._fifo = steps, look_inside, fifo
        super().__init__({"go": In(1), "clear": In(1), "total": Out(10)})

    def elaborate(self, platform):
        m = Module()
        counters = [Counter(step) for step in self._steps]
        m.submodules.first = ResetInserter(self.clear)(counters[0])
        m.submodules += counters[1:]
        m.d.comb += [c.enable.eq(self.go) for c in counters]
        m.d.comb += self.total.eq(sum(c.count for c in counters))
        if self._look:
            m.submodules.other = other = Other()
            m.d.comb += self.total.eq(other.hidden)
        if self._fifo:
            m.submodules.queue = queue = SyncFIFO(width=10, depth=4)
            m.d.comb += [queue.w_data.eq(queue.level), self.total.eq(queue.r_data)]
        return m


class Other(Component):
    go: In(1)

    def __init__(self):
        super().__init__()
        self.hidden = Signal(10, name="hidden")

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.hidden.eq(self.go)
        return m


def modules(text):
    return re.findall(r"^module \\(\S+)$", text, re.M)


def test_equal_components_share_a_module():
    text = to_rtlil(Parent([1, 1, 3, 1]), "top")
    assert modules(text) == ["opendpu_counter", "opendpu_counter_2", "top"]
    assert len(re.findall(r"cell \\opendpu_counter ", text)) == 3
    assert len(re.findall(r"cell \\opendpu_counter_2 ", text)) == 1


def test_ports_are_the_members_in_order():
    text = to_verilog(Parent([1]), "top")
    assert "module opendpu_counter(clk, rst, enable, count);" in text
    assert "module top(clk, rst, go, clear, total);" in text


def test_reset_inserter_becomes_the_instances_reset():
    text = to_verilog(Parent([1, 1]), "top")
    resets = re.findall(r"\.rst\((\w+)\)", text)
    assert len(resets) == 2
    (other,) = set(resets) - {"rst"}
    assert re.search(rf"assign {other} = rst \| clear;", text)


def test_a_fifo_has_ports_too():
    text = to_verilog(Parent([1], fifo=True), "top")
    assert re.search(r"module opendpu_sync_fifo\(clk, rst, w_data, .*level\);", text)


def test_reading_what_is_no_port_is_refused():
    with pytest.raises(
        NotImplementedError, match="Parent reads 'hidden' of Other, which is no port"
    ):
        to_rtlil(Parent([1, 1], look_inside=True), "top")


def test_lanes_and_banks_of_the_dpu_are_one_module_each():
    names = modules(to_rtlil(Top(Target.from_name("B64")), "opendpu_top"))
    assert len(names) == len(set(names))
    assert names.count("opendpu_lane") == 1
    assert not any(name.startswith("opendpu_lane_") for name in names)
    assert {name for name in names if name.startswith("opendpu_bank")} == {
        "opendpu_bank", "opendpu_bank_2", "opendpu_banks",
    }  # fmt: skip
