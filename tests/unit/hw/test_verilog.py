# SPDX-License-Identifier: Apache-2.0
"""Verilog text: flat ports, memories filled by loops, atomic files, the command line."""

import json
import re

import pytest
from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from opendpu_hw import hierarchy, verilog, verilog_text
from opendpu_hw.__main__ import main


class Table(Component):
    def __init__(self, init, depth=16):
        self._init, self._depth = init, depth
        super().__init__(
            {
                "addr": In(range(depth)),
                "data": Out(8),
                "bus": Out(stream.Signature(unsigned(3))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(shape=8, depth=self._depth, init=self._init)
        port = memory.read_port()
        m.d.comb += [port.addr.eq(self.addr), self.data.eq(port.data)]
        return m


def contents(text):
    """Interpret the initial blocks of Verilog text as a simulator would."""
    values = {}
    for block in re.findall(r"initial begin(.*?)\n  end", text, re.S):
        for line in block.splitlines():
            if loop := re.match(r"\s+for \(i = 0; i < (\d+);", line):
                count = int(loop[1])
            elif re.match(r"\s+\S+ ?\[i\] = \{8\{1'b0\}\};", line):
                values.update(dict.fromkeys(range(count), 0))
            elif word := re.match(r"\s+\S+ ?\[(\d+)\] = 8'h(\w+);", line):
                values[int(word[1])] = int(word[2], 16)
    return values


def test_nested_members_become_flat_ports():
    table = Table([])
    ports = hierarchy.ports_of(table)
    assert list(ports) == ["addr", "data", "bus_payload", "bus_valid", "bus_ready"]
    text = verilog.to_verilog(table, "lookup")
    assert "module lookup(" in text
    assert "input bus_ready;" in text
    assert "src =" not in text


@pytest.mark.parametrize(
    "init", [[], [0] * 16, [7], [0, 0, 0x80, 0, 3], list(range(16)), [255] * 16, [0] * 15 + [1]]
)
def test_memory_keeps_its_contents(init):
    text = verilog.to_verilog(Table(init))
    assert contents(text) == dict(enumerate(init + [0] * (16 - len(init))))


def test_zeros_take_three_lines_however_deep():
    small, large = (verilog.to_verilog(Table([], depth)) for depth in (256, 4096))
    assert len(small.splitlines()) == len(large.splitlines())
    assert "for (i = 0; i < 4096; i = i + 1)" in large


def test_nonzero_words_stay_after_the_loop():
    text = verilog.to_verilog(Table([0, 0, 0x80, 0, 3]))
    block = re.search(r"initial begin.*?\n  end", text, re.S)[0]
    assert block.index("for (") < block.index("[2] = 8'h80") < block.index("[4] = 8'h03")
    assert block.count("8'h") == 2


def initial(*words):
    return "  initial begin\n" + "".join(f"    {w} = 8'h00;\n" for w in words) + "  end\n"


@pytest.mark.parametrize(
    "block",
    [
        initial("a[0]", "b[1]", "a[2]", "a[3]"),
        initial("a[1]", "a[2]", "a[3]", "a[4]"),
        initial("a[0]", "a[2]", "a[1]", "a[3]"),
        initial("a"),
    ],
)
def test_other_initial_blocks_are_left_alone(block):
    assert verilog_text.fill_memories(block) == block


def test_every_filled_block_has_its_own_name():
    block = "".join(f"    a[{i}] = 8'h00;\n" for i in range(8))
    text = verilog_text.fill_memories(f"  initial begin\n{block}  end\n" * 3)
    names = re.findall(r"begin : (\w+)", text)
    assert len(set(names)) == 3


@pytest.mark.parametrize("board", [[], ["--board", "kv260"]])
def test_an_empty_path_is_no_folder(board, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["--target", "B512", "-o", "", *board]) == 1
    assert "'' cannot be written: the path is empty" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_outputs_are_checked_before_the_verilog_is_made(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(verilog, "elaborate", lambda *_, **__: pytest.fail("elaborated"))
    name = "DPUCZDX8G_ISA1_B64"
    (tmp_path / f"{name}.json").mkdir()
    assert main(["--target", "b64", "-o", str(tmp_path)]) == 1
    assert f"{name}.json cannot be written: it is a directory" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["--target", "B64", "-o", str(tmp_path / "file" / "deeper")]) == 1
    assert "deeper cannot be written: " in capsys.readouterr().err
    assert {p.name for p in tmp_path.iterdir()} == {"file", f"{name}.json"}


def test_unknown_target_is_an_error_not_a_file(tmp_path, capsys):
    assert main(["--target", "B4097", "-o", str(tmp_path)]) == 1
    assert "no target is called 'B4097'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_description_lists_ports_and_registers():
    from opendpu_arch.target import Target

    text = (
        f"module {verilog.TOP}(a, b);\n  input a;\n  wire a;\n  output [31:0] b;\nendmodule\n"
        "module inner(c);\n  input c;\n  wire c;\nendmodule\n"
    )
    about = verilog.description(Target.from_name("B64"), text)
    assert json.loads(json.dumps(about)) == about
    assert about["ports"] == [
        {"name": "a", "direction": "input", "width": 1},
        {"name": "b", "direction": "output", "width": 32},
    ]
    assert {"name": "AP_CTRL", "offset": 0}.items() <= about["registers"][0].items()


def test_signal_named_like_a_memory_word_is_no_memory():
    class Plain(Component):
        o: Out(4)

        def elaborate(self, platform):
            m = Module()
            counter = Signal(4, init=5)
            m.d.sync += counter.eq(counter + 1)
            m.d.comb += self.o.eq(counter)
            return m

    assert "opendpu_fill" not in verilog.to_verilog(Plain(), "plain")


def test_selections_exclude_each_other_and_keep_their_order():
    text = "    casez (s)\n      4'b???1:\n      4'b??1?:\n      4'b1???:\n      4'b0101:\n"
    assert verilog_text.order_selections(text) == (
        "    casez (s)\n      4'b???1:\n      4'b??10:\n      4'b1000:\n      4'b0101:\n"
    )


def test_selections_say_so_by_an_attribute():
    text = "    casez (s) // synopsys parallel_case\n      1'b1:\n"
    assert verilog_text.mark_selections(text) == (
        "    (* parallel_case *)\n    casez (s)\n      1'b1:\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{ a[9], a[9], a[9], a }", "{ {3{a[9]}}, a }"),
        ("{ b, \\a.b , \\a.b , \\a.b , \\a.b  }", "{ b, {4{\\a.b }} }"),
        ("{ a[1], a[1], a[10] }", "{ a[1], a[1], a[10] }"),
        ("{ x_a, a, a, a_x }", "{ x_a, a, a, a_x }"),
        ("f(a, a, a)", "f(a, a, a)"),
    ],
)
def test_repeated_bits_get_a_count(before, after):
    assert verilog_text.replicate(before) == after


def test_ports_say_which_interface_they_are_of():
    text = (
        f"module {verilog.TOP}(aclk, s_axi_control_awaddr, m_axi_data0_rvalid, events);\n"
        "  input aclk;\n  wire aclk;\n  input [11:0] s_axi_control_awaddr;\n"
        "  input m_axi_data0_rvalid;\n  output [8:0] events;\nendmodule\n"
        "module inner(aclk);\n  input aclk;\nendmodule\n"
    )
    marked = verilog_text.name_interfaces(text, verilog.TOP)
    lines = marked.splitlines()
    above = {line.split()[-1]: lines[i - 1] for i, line in enumerate(lines) if "put " in line}
    axi = "xilinx.com:interface:aximm:1.0"
    assert above["s_axi_control_awaddr;"].strip() == (
        f'(* X_INTERFACE_INFO = "{axi} s_axi_control AWADDR" *)'
    )
    assert above["m_axi_data0_rvalid;"].strip() == (
        f'(* X_INTERFACE_INFO = "{axi} m_axi_data0 RVALID" *)'
    )
    assert "ASSOCIATED_BUSIF m_axi_data0:s_axi_control, ASSOCIATED_RESET aresetn" in marked
    assert above["events;"] == "  input m_axi_data0_rvalid;"
    assert marked.count("X_INTERFACE_INFO") == 3  # nothing in the inner module
    assert [line for line in lines if "X_INTERFACE" not in line] == text.splitlines()
