# SPDX-License-Identifier: Apache-2.0
"""What people read about a compilation."""

import json

from graph_draws import Quantized

from opendpu.compiler.pipeline import Compiled, compile_with_report
from opendpu.compiler.provenance import LAYER_OF, LAYERS, layer_attributes
from opendpu_arch import isa
from opendpu_arch.target import Target

TARGET = Target.from_name("B64")


def compiled() -> Compiled:
    q = Quantized()
    x = q.conv(q.data(16, 16, 5), "/a/b/conv", 24, pad=1, act="relu")
    y = q.conv(x, "dw", 0, pad=1, kind="depthwise-conv2d")
    q.op("soft", "softmax", (16, 16, 24), [y], axis=-1)
    z = q.conv(q.fix("soft", 6), "b", 24)
    return compile_with_report(q.done(q.add([z, q.conv(x, "c", 24)], "sum")), TARGET)


def test_figures() -> None:
    found = compiled()
    first, second = (s for s in found.report.subgraphs if s.device == "DPU")
    (program, _) = (
        s for s in found.graph.get_root_subgraph().get_children() if s.has_attr("mc_code")
    )
    instructions = list(isa.decode(program.get_attr("mc_code")))
    loads = [i for i in instructions if isinstance(i, isa.Load)]
    saves = [i for i in instructions if isinstance(i, isa.Save)]
    assert first.load_bytes == sum(i.length * i.channel for i in loads)
    assert first.save_bytes == sum(i.length * i.channel for i in saves)
    assert first.code_bytes == len(program.get_attr("mc_code"))
    assert sum(first.instructions.values()) == len(instructions)
    size, taps = 16 * 16 * 24, 9
    assert first.macs == size * taps * 5 + size * taps + 14 * 14 * 24 * taps * 24
    assert second.macs == 14 * 14 * 24 * taps * 24
    assert first.utilization == first.macs / (TARGET.macs_per_cycle * first.cycles)
    assert first.segment_bytes["constants"] == first.weight_bytes
    sizes = program.get_attr("reg_id_to_size")
    assert first.segment_bytes["outputs"] == sizes["REG_3"]


def test_text() -> None:
    report = compiled().report
    lines = str(report).splitlines()
    assert lines[0] == "target DPUCZDX8G_ISA1_B64; subgraphs: 2 for DPU, 1 for CPU"
    assert lines[1] == "DPU subgraph_/a/b/conv: 3 ops"
    assert "cycles expected for 1,347,840 MACs: utilization " in lines[2]
    assert "engines busy: load " in lines[2]
    assert " bytes loaded, " in lines[4]
    assert lines[-1].startswith("op soft has been assigned to CPU: [the DPU has no softmax")
    assert lines[-2].startswith("DPU in all: about ")
    assert lines[-2].endswith(f" cycles for {sum(s.macs for s in report.subgraphs):,} MACs")
    assert json.loads(json.dumps(report.as_dict()))["on_cpu"] == dict(report.on_cpu)


def test_counted_cycles_take_the_place_of_expected_ones() -> None:
    report = compiled().report.with_cycles([60_000, 50_000], "kv260", TARGET.macs_per_cycle)
    first, second = (s for s in report.subgraphs if s.device == "DPU")
    assert (first.counted_cycles, second.counted_cycles) == (60_000, 50_000)
    assert first.utilization == first.macs / (TARGET.macs_per_cycle * 60_000)
    lines = str(report).splitlines()
    assert lines[2].startswith("  60,000 cycles with memory kv260 for 1,347,840 MACs: utilization ")
    assert lines[-2].startswith("DPU in all: 110,000 cycles for ")


def test_instructions_know_their_ops() -> None:
    """Whatever their layers are called, and names of ops may have slashes."""
    origins = {"/a/b": "/a/b", "/a/b/1": "/a/b", "part": "c", "c": "c"}
    found = layer_attributes(
        ["/a/b", "/a/b/1", "part", "c", ""], origins, {"/a/b": "/a/b", "c": "c_1"}
    )
    assert found == {LAYERS: ["/a/b", "c_1"], LAYER_OF: [0, 0, 1, 1, -1]}
    assert layer_attributes(["x/y"], {}, {}) == {LAYERS: ["x/y"], LAYER_OF: [0]}
    dpu = [s for s in compiled().graph.get_root_subgraph().get_children() if s.has_attr(LAYERS)]
    assert next(s.get_attr(LAYERS) for s in dpu)[0] == "/a/b/conv"
