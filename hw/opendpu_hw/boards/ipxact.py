# SPDX-License-Identifier: Apache-2.0
"""The DPU as an IP core: ``component.xml`` after IEEE 1685-2009, the edition that Vivado reads."""

from collections.abc import Iterable, Mapping, Set
from typing import Any
from xml.etree import ElementTree

from opendpu_arch.regs import REGISTERS
from opendpu_hw.bus.axi4 import ADDRESS_WIDTH
from opendpu_hw.control.registers import ADDR_WIDTH
from opendpu_hw.double_rate import DOUBLED_CLOCK

#: Vendor, library, name and version: how Vivado finds the core.
VENDOR, LIBRARY, NAME, VERSION = "opendpu", "opendpu", "dpu", "1.0"

SPIRIT = "http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009"
XILINX = "http://www.xilinx.com"

_MEMORY_MAP = "control"
_FILES = "verilog"
_ACCESS = {"rw": "read-write", "ro": "read-only", "w1c": "read-write"}
#: Bus of a port that is none of AXI: type, logical name, and parameters.
_SINGLE = {
    "aclk": ("clock", "CLK"), DOUBLED_CLOCK: ("clock", "CLK"),
    "aresetn": ("reset", "RST"), "interrupt": ("interrupt", "INTERRUPT"),
}


def component(description: Mapping[str, Any], source: str) -> str:
    """Return ``component.xml``.

    Parameters
    ----------
    description
        Of :func:`opendpu_hw.verilog.description`.
    source
        Path of the Verilog from where the file will be.
    """
    ports = description["ports"]
    buses = bus_ports(p["name"] for p in ports)
    root = ElementTree.Element(
        "spirit:component", {"xmlns:spirit": SPIRIT, "xmlns:xilinx": XILINX})
    _fields(root, vendor=VENDOR, library=LIBRARY, name=NAME, version=VERSION)
    interfaces = _child(root, "busInterfaces")
    for bus, members in buses.items():
        _axi(interfaces, bus, members)
    _clocking(interfaces, list(buses), {p["name"] for p in ports})
    spaces = _child(root, "addressSpaces")
    for bus in buses:
        if bus.startswith("m_"):
            space = _child(spaces, "addressSpace")
            _fields(space, name=bus, range=f"{1 << ADDRESS_WIDTH:#x}",
                    width=_data_width(ports, bus))
    _memory_map(_child(root, "memoryMaps"))
    _model(_child(root, "model"), description["module"], ports)
    _file_set(_child(root, "fileSets"), source)
    _fields(root, description=f"OpenDPU {description['target']}, fingerprint "
                              f"{description['fingerprint']}")
    _extensions(_child(root, "vendorExtensions"), description["target"])
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, "unicode")}\n'


def bus_ports(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the ports of each AXI interface by its name."""
    buses: dict[str, list[str]] = {}
    for name in names:
        if "_axi_" in name:
            buses.setdefault(name.rpartition("_")[0], []).append(name)
    return buses


def _child(parent: ElementTree.Element, tag: str, text: object = None,
           **attributes: str) -> ElementTree.Element:
    element = ElementTree.SubElement(
        parent, f"spirit:{tag}", {f"spirit:{key}": value for key, value in attributes.items()})
    if text is not None:
        element.text = str(text)
    return element


def _fields(parent: ElementTree.Element, **texts: object) -> None:
    for tag, text in texts.items():
        _child(parent, tag, text)


def _interface(parent: ElementTree.Element, name: str, library: str, kind: str,
               mode: str) -> tuple[ElementTree.Element, ElementTree.Element]:
    """Add a bus interface; return it and the element of its mode."""
    interface = _child(parent, "busInterface")
    _fields(interface, name=name)
    for tag, bus in (("busType", kind), ("abstractionType", f"{kind}_rtl")):
        _child(interface, tag, vendor="xilinx.com", library=library, name=bus, version="1.0")
    return interface, _child(interface, mode)


def _map_ports(interface: ElementTree.Element, ports: Mapping[str, str]) -> None:
    maps = _child(interface, "portMaps")
    for logical, physical in ports.items():
        entry = _child(maps, "portMap")
        _fields(_child(entry, "logicalPort"), name=logical)
        _fields(_child(entry, "physicalPort"), name=physical)


def _parameters(interface: ElementTree.Element, bus: str, values: Mapping[str, str]) -> None:
    parameters = _child(interface, "parameters")
    for name, value in values.items():
        parameter = _child(parameters, "parameter")
        _fields(parameter, name=name)
        _child(parameter, "value", value, id=f"BUSIFPARAM_VALUE.{bus.upper()}.{name}")


def _axi(parent: ElementTree.Element, bus: str, members: Iterable[str]) -> None:
    master = bus.startswith("m_")
    interface, mode = _interface(
        parent, bus, "interface", "aximm", "master" if master else "slave")
    if master:
        _child(mode, "addressSpaceRef", addressSpaceRef=bus)
    else:
        _child(mode, "memoryMapRef", memoryMapRef=_MEMORY_MAP)
    _map_ports(interface, {name.removeprefix(f"{bus}_").upper(): name for name in members})
    _parameters(interface, bus, {"PROTOCOL": "AXI4" if master else "AXI4LITE"})


def _clocking(parent: ElementTree.Element, buses: list[str], ports: Set[str]) -> None:
    values = {
        "aclk": {"ASSOCIATED_BUSIF": ":".join(buses), "ASSOCIATED_RESET": "aresetn"},
        DOUBLED_CLOCK: {},
        "aresetn": {"POLARITY": "ACTIVE_LOW"},
        "interrupt": {"SENSITIVITY": "LEVEL_HIGH"}}
    for port, (kind, logical) in _SINGLE.items():
        if port not in ports:
            continue
        mode = "master" if port == "interrupt" else "slave"
        interface, _ = _interface(parent, port, "signal", kind, mode)
        _map_ports(interface, {logical: port})
        if values[port]:
            _parameters(interface, port, values[port])


def _data_width(ports: Iterable[Mapping[str, Any]], bus: str) -> int:
    return next(int(p["width"]) for p in ports if p["name"] == f"{bus}_rdata")


def _memory_map(parent: ElementTree.Element) -> None:
    memory = _child(parent, "memoryMap")
    _fields(memory, name=_MEMORY_MAP)
    block = _child(memory, "addressBlock")
    _fields(block, name="registers", baseAddress="0x0", range=f"{1 << ADDR_WIDTH:#x}", width=32,
            usage="register")
    for register in REGISTERS:
        entry = _child(block, "register")
        _fields(entry, name=register.name, description=register.doc,
                addressOffset=f"{register.offset:#x}", size=32, access=_ACCESS[register.access])


def _model(model: ElementTree.Element, module: str, ports: Iterable[Mapping[str, Any]]) -> None:
    views = _child(model, "views")
    for name, use in (("xilinx_anylanguagesynthesis", "synthesis"),
                      ("xilinx_anylanguagebehavioralsimulation", "simulation")):
        view = _child(views, "view")
        _fields(view, name=name, envIdentifier=f":vivado.xilinx.com:{use}", language="Verilog",
                modelName=module)
        _fields(_child(view, "fileSetRef"), localName=_FILES)
    listed = _child(model, "ports")
    for port in ports:
        entry = _child(listed, "port")
        _fields(entry, name=port["name"])
        wire = _child(entry, "wire")
        _fields(wire, direction="in" if port["direction"] == "input" else "out")
        if port["width"] > 1:
            _fields(_child(wire, "vector"), left=port["width"] - 1, right=0)


def _file_set(parent: ElementTree.Element, source: str) -> None:
    files = _child(parent, "fileSet")
    _fields(files, name=_FILES)
    _fields(_child(files, "file"), name=source, fileType="verilogSource")


def _extensions(parent: ElementTree.Element, target: str) -> None:
    def extension(above: ElementTree.Element, tag: str, text: str | None = None,
                  **attributes: str) -> ElementTree.Element:
        element = ElementTree.SubElement(
            above, f"xilinx:{tag}", {f"xilinx:{k}": v for k, v in attributes.items()})
        element.text = text
        return element

    core = extension(parent, "coreExtensions")
    families = extension(core, "supportedFamilies")
    extension(families, "family", "zynquplus", lifeCycle="Beta")
    extension(extension(core, "taxonomies"), "taxonomy", "/UserIP")
    extension(core, "displayName", f"OpenDPU {target}")
    extension(core, "coreRevision", "1")
