# SPDX-License-Identifier: Apache-2.0
"""Plug-ins take ops, and the rest of the graph is compiled around them."""

import pathlib
import random

import numpy as np
import pytest
from graph_draws import Quantized
from oracle import evaluate_quantized

import xir
from opendpu.compiler.options import Options
from opendpu.compiler.pipeline import Compiled, compile_with_report
from opendpu.ir import QuantizedGraph
from opendpu.runtime import GraphRunner
from opendpu_arch.errors import PluginError
from opendpu_arch.target import Target

TARGET = Target.from_name("B512")
EXAMPLE = pathlib.Path(__file__).parents[4] / "docs" / "examples" / "softmax_plugin.py"

HEAD = """
from opendpu.plugin import Plugin, PluginHelper

class Mine(Plugin):
    def get_plugin_name(self): return "mine"
    def get_device(self): return "MINE"
    def get_runner(self): return {"run": "libmine.so"}
    def compile(self, subgraph): subgraph.set_attr("code", b"123")
    def partition(self, graph):
        %s

def get_plugin(): return Mine()
"""


def write(folder: pathlib.Path, body: str) -> str:
    (folder / "mine.py").write_text(HEAD % body)
    return str(folder / "mine.py")


def compiled_with(graph: QuantizedGraph, *plugins: str) -> Compiled:
    return compile_with_report(graph, TARGET, options=Options(plugins=plugins))


def devices(compiled: Compiled) -> list[str]:
    root = compiled.graph.get_root_subgraph()
    return [str(s.get_attr("device")) for s in root.get_children()]


def check(compiled: Compiled, graph: QuantizedGraph) -> None:
    """Assert that the graph computes what it did; the CPU stands in for the accelerator."""
    again = xir.Graph.from_bytes(compiled.graph.to_bytes())
    made = np.random.default_rng(3)
    with GraphRunner(again, device="iss", target=TARGET, check=True) as runner:
        given = {
            t.name: made.integers(-128, 128, t.dims, np.int8) for t in runner.get_input_tensors()
        }
        floats = [t.name for t in runner.get_input_tensors() if t.dtype == "float32"]
        found = runner.run({n: v / np.float32(32) if n in floats else v for n, v in given.items()})
    for name, values in evaluate_quantized(graph, given).items():
        if found[name].dtype == np.float32 and values.dtype == np.int8:  # its fix was taken
            values = values * 2.0 ** -graph[name].fix_point
        np.testing.assert_allclose(found[name], values, rtol=1e-6, err_msg=name)


def network() -> QuantizedGraph:
    q = Quantized()
    x = q.conv(q.data(8, 8, 5), "a", 8, pad=1, act="relu")
    q.op("soft", "softmax", (8, 8, 8), [x], axis=-1)
    y = q.conv(q.fix("soft", 6), "b", 8, pad=1)
    return q.done(q.add([y, x], "sum"))


def test_the_example_in_the_docs() -> None:
    graph = network()
    compiled = compiled_with(graph, str(EXAMPLE))
    assert devices(compiled) == ["USER", "DPU", "CPU", "SMFC", "CPU", "DPU"]
    (taken,) = [
        s for s in compiled.graph.get_root_subgraph().get_children()
        if s.get_attr("device") == "SMFC"
    ]  # fmt: skip
    assert [op.get_type() for op in taken.get_ops()] == ["softmax"]
    assert taken.get_name() == "subgraph_soft"
    assert taken.get_attr("smfc_columns") == 8
    assert taken.get_attr("runner")["run"] == "libsmfc-runner.so"
    assert compiled.report.on_cpu == {}
    check(compiled, graph)


def test_a_plugin_can_take_ops_of_the_dpu(tmp_path: pathlib.Path) -> None:
    plugin = write(tmp_path, "return [PluginHelper.filter_by_name(graph, 'b')]")
    compiled = compiled_with(network(), plugin)
    kinds = {op.get_name(): op.get_type() for op in compiled.graph.get_ops()}
    assert kinds["b"] == "conv2d"
    (mine,) = [
        s for s in compiled.graph.get_root_subgraph().get_children()
        if s.get_attr("device") == "MINE"
    ]  # fmt: skip
    assert mine.get_attr("code") == b"123"
    check(compiled, network())


def test_plugins_run_one_after_the_other(tmp_path: pathlib.Path) -> None:
    rest = (
        "return PluginHelper.merge_subgraph([c for c in PluginHelper.filter(graph, list)"
        " if c.get_ops()[0].get_type() in ('softmax', 'add')])"
    )
    compiled = compiled_with(network(), str(EXAMPLE), write(tmp_path, rest))
    assert devices(compiled).count("SMFC") == 1
    assert devices(compiled).count("MINE") == 1
    check(compiled, network())


@pytest.mark.parametrize("seed", range(25))
def test_random_claims(seed: int, tmp_path: pathlib.Path) -> None:
    pick = random.Random(seed)
    q = Quantized()
    made = [q.data(4, 4, 8)]
    for number in range(pick.randint(2, 9)):
        name = f"n{number}"
        source = pick.choice(made[-3:])
        kind = pick.choice(["conv", "soft", "add", "sigmoid"])
        if kind == "conv":
            made.append(q.conv(source, name, 8, kernel=1))
        elif kind == "add":
            made.append(q.add([source, pick.choice(made)], name))
        else:
            attrs = {"axis": -1} if kind == "soft" else {}
            q.op(name, "softmax" if kind == "soft" else "sigmoid", (4, 4, 8), [source], **attrs)
            made.append(q.fix(name, 6))
    graph = q.done(made[-1])
    ops = [node.name for node in graph if node.kind not in ("data", "const")]
    wanted = [name for name in ops if pick.random() < 0.3] or ops[-1:]
    body = (
        f"return PluginHelper.merge_subgraph("
        f"[PluginHelper.filter_by_name(graph, n) for n in {wanted!r}])"
    )
    compiled = compiled_with(graph, write(tmp_path, body))
    assert "MINE" in devices(compiled) or not set(wanted) & {
        op.get_name() for op in compiled.graph.get_ops()
    }
    check(compiled, graph)


BROKEN = [
    ("raise ValueError('no')", "plug-in 'mine' failed in partition: ValueError: no"),
    ("return [graph.get_root_subgraph()]", "which is no child of the root subgraph"),
    ("return [PluginHelper.filter_by_name(graph, 'x')]", "holds the input 'x' of the graph"),
    ("return [PluginHelper.filter_by_name(graph, 'a_w')]", "which computes nothing"),
    (
        "c = PluginHelper.filter_by_name; return [graph.get_root_subgraph().merge_children("
        "[c(graph, 'a_relu'), c(graph, 'sum')])]",
        "taken by plug-ins need each other through ops that are not",
    ),
    (
        "self.get_device = lambda: 'DPU'; s = PluginHelper.filter_by_name(graph, 'b'); "
        "s.set_attr('device', 'OTHER'); return [s]",
        "returns 'subgraph_b', which is for device 'OTHER'",
    ),
]


@pytest.mark.parametrize(("body", "message"), BROKEN)
def test_plugins_that_ask_for_what_cannot_be(
    body: str, message: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(PluginError, match=message):
        compiled_with(network(), write(tmp_path, body))


def test_plugins_that_cannot_be_loaded(tmp_path: pathlib.Path) -> None:
    with pytest.raises(PluginError, match=r"'no_such' cannot be loaded: ModuleNotFoundError"):
        compiled_with(network(), "no_such")
    with pytest.raises(PluginError, match=r"none.py' cannot be loaded: FileNotFoundError"):
        compiled_with(network(), str(tmp_path / "none.py"))
    with pytest.raises(PluginError, match="plug-in 'json' has no function 'get_plugin'"):
        compiled_with(network(), "json")
    (tmp_path / "a.py").write_text("def get_plugin(): return 3")
    with pytest.raises(PluginError, match=r"get_plugin returns a int, but must return an opendp"):
        compiled_with(network(), str(tmp_path / "a.py"))
    text = (HEAD % "return []").replace('"MINE"', '"CPU"')
    (tmp_path / "b.py").write_text(text)
    with pytest.raises(PluginError, match="'mine' is for device 'CPU', but must have one of its"):
        compiled_with(network(), str(tmp_path / "b.py"))
