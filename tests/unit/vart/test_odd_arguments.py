# SPDX-License-Identifier: Apache-2.0
"""Arguments that nobody means to give: an error that says so, and the interpreter goes on."""

import inspect
import math
import pathlib
import random
import sys
import warnings

import numpy as np
import pytest

import vart
import xir
from opendpu_arch.errors import DPUError, GraphError, ModelFormatError
from vitis_ai_library import GraphRunner

sys.path.append(str(pathlib.Path(__file__).parent))

from test_vart import copying_subgraph

CALLS = 3000
WRITING = ("serialize", "save_as_dot", "save_as_image")


class NoLength:
    def __len__(self) -> int:
        return -1


def odd_values(objects: list[object]) -> list[object]:
    numbers = [None, True, 0, -1, 2**31, -(2**63), 10**30, 1.5, math.nan, math.inf, 1 + 2j]
    texts = ["", "x", "y", "run", "sim", "INT8", "\0", "a" * 9999, "\ud800", "../x", b"", b"abc"]
    lists = [[], [1], [None], [[]], (), (1,), (0, 0), (-1, 0), (99999, 0), {}, {"a": 1}, {1: 2},
             {"shape": [1, 2], "data_type": "INT8"}, {"shape": [-1], "data_type": "INT8"},
             {"input": [None]}, {"input": ["x"]}, set(), range(5)]  # fmt: skip
    arrays = [np.zeros((1, 1, 1, 4), kind) for kind in ("i1", "f4", "f8", "O", "c8", "U1")]
    buffers = [np.zeros(0), np.zeros((), np.int8), np.broadcast_to(np.int8(1), (1, 1, 1, 4)),
               np.zeros((1, 1, 1, 4), np.int8)[..., ::-1], np.ma.zeros(4), memoryview(bytes(4)),
               bytearray(4)]  # fmt: skip
    others = [object(), NoLength(), int, len, lambda *_: None, Ellipsis, xir.Graph, xir.Tensor]
    single = [*arrays, *buffers]
    return [*numbers, *texts, *lists, *single, *([one] for one in single), *others, *objects]


def public_objects() -> list[object]:
    graph = copying_subgraph().get_graph()
    dpu = graph.get_root_subgraph().get_children()[1]
    new, template = xir.Graph("new"), xir.GraphTemplate("t")
    op = new.create_op("x", "data", {"shape": [1, 4], "data_type": "FLOAT32"})
    closed = vart.Runner.create_runner(dpu)
    closed.close()
    runner = vart.RunnerExt.create_runner(dpu)
    return [
        graph, dpu, new, new.get_root_subgraph(), op, op.get_output_tensor(), template,
        template.add_op("one", ["data"], None), xir.DataType("xint8"), xir.Tensor("q", [1], "INT8"),
        vart.Runner.create_runner(dpu), runner, closed, runner.get_inputs()[0],
    ]  # fmt: skip


def members(thing: object) -> list[str]:
    if isinstance(thing, np.ndarray):
        return ["get_tensor"]
    return [
        name for name in dir(thing)
        if not name.startswith("_") and name not in WRITING
        and not inspect.isclass(inspect.getattr_static(thing, name))
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_every_error_says_so(seed):
    chosen = random.Random(seed)
    for number in range(CALLS):
        if number % 300 == 0:
            objects = public_objects()
        thing = chosen.choice(objects)
        name = chosen.choice(members(thing))
        values = odd_values(objects)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                call(thing, name, values, chosen)
            except (DPUError, TypeError) as error:
                assert str(error)
            except (ValueError, AttributeError) as error:
                # those of Python and NumPy: what is no pair, has no truth value, cannot be set
                said = ("ambiguous", "values to unpack", "length", "__len__", "has no setter")
                assert any(words in str(error) for words in said), (thing, name)


def call(thing: object, name: str, values: list[object], chosen: random.Random) -> None:
    """Call a method or set an attribute."""
    member = getattr(thing, name)
    if not callable(member):
        setattr(thing, name, chosen.choice(values))
        return
    parameters = [p for p in inspect.signature(member).parameters.values() if p.kind == 1]
    needed = sum(p.default is p.empty for p in parameters)
    member(*(chosen.choice(values) for _ in range(chosen.choice([needed, len(parameters)]))))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: vart.Runner.create_runner(None), "is None of type NoneType, but must be of type"),
        (lambda: vart.RunnerExt.create_runner(xir.Graph("g")), "must be of type Subgraph"),
        (lambda: GraphRunner.create_graph_runner("net.xmodel"), "must be of type Graph"),
        (lambda: xir.Tensor(3, [1], "INT8"), "name of a tensor is 3 of type int"),
        (lambda: xir.Tensor("t", [1.5], "INT8"), "tensor 't': dimensions must be whole numbers"),
        (lambda: xir.Tensor("t", [1], 8), "tensor 't': data type is 8 of type int"),
        (
            lambda: xir.Graph("g").create_op("x", "data", [1]),
            "attributes is .* must be of type Map",
        ),
        (lambda: xir.Graph("g").remove_op("x"), "op is 'x' of type str, but must be of type Op"),
        (lambda: xir.GraphTemplate("t").remove_op(1), "must be of type OpTemplate"),
        (lambda: xir.register_op("mine"), "definition is 'mine' of type str"),
    ],
)
def test_types_that_are_wrong(made, message):
    with pytest.raises(TypeError, match=message):
        made()


@pytest.mark.parametrize("job", ["1", None, {"a": 1}, (), 1.5, [[]]])
def test_what_is_no_job(job):
    runner = vart.Runner.create_runner(copying_subgraph())
    for method in (runner.wait, runner.statistics):
        with pytest.raises(TypeError, match="must be what execute_async returned"):
            method(job)


def test_what_is_no_list():
    runner = vart.Runner.create_runner(copying_subgraph())
    with pytest.raises(TypeError, match="inputs are of type int, but must be a list"):
        runner.execute_async(3, [np.zeros((1, 1, 1, 4), np.int8)])


def test_kinds_and_names_that_no_file_holds():
    kind = xir.DataType("xint8")
    with pytest.raises(GraphError, match="kind of a data type is 99, but must be one of"):
        kind.type = 99
    with pytest.raises(TypeError, match="bits of a data type is '8'"):
        kind.bit_width = "8"
    assert kind == xir.DataType("XINT8")
    graph = xir.Graph("g")
    for wrong in (
        lambda: xir.Graph("\ud800"),
        lambda: graph.set_attr("a", ["\ud800"]),
        lambda: graph.set_attr("a", {"\ud800": 1}),
        lambda: graph.set_attr("\ud800", 1),
        lambda: graph.set_attr("a", 10**400, "double"),
    ):
        with pytest.raises(GraphError, match=r"encoding|must be a|too large"):
            wrong()
    for path in ("a\0b", "\ud800"):
        with pytest.raises(ModelFormatError, match="cannot be read"):
            xir.Graph.deserialize(path)
