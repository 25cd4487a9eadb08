# SPDX-License-Identifier: Apache-2.0
"""Names, argument names and defaults of PyXIR, method by method, and habits of its users."""

import inspect

import numpy as np
import pytest

import xir
from opendpu_arch.errors import GraphError

REQUIRED = inspect.Parameter.empty

ATTRS = {
    "has_attr": ["name"],
    "get_attr": ["name"],
    "set_attr": ["name", "value"],
    "get_attrs": [],
    "set_attrs": ["attrs"],
}
PYXIR = {
    xir.Graph: {
        **ATTRS,
        "deserialize": ["fname"],
        "serialize": ["fname"],
        "get_name": [],
        "create_op": ["name", "kind", ("attrs", None), ("input_ops", None), ("subgraph", None)],
        "create_const_op": [0, 1],
        "remove_op": ["op"],
        "get_op": ["name"],
        "get_ops": [],
        "get_op_num": [],
        "get_tensors": [],
        "get_head_ops": [],
        "get_tail_ops": [],
        "get_tensor": ["name"],
        "get_tensor_producer": ["tensor"],
        "toposort": [],
        "infer_shape": [],
        "save_as_dot": ["fname"],
        "save_as_image": ["fname", "format"],
        "get_root_subgraph": [],
        "get_leaf_subgraph": [0],
    },
    xir.Op: {
        **ATTRS,
        "get_name": [],
        "get_type": [],
        "get_input_num": [("name", None)],
        "get_input_ops": [],
        "get_input_ops_by_name": ["name"],
        "get_input_op": ["name", ("idx", 0)],
        "set_input_ops": ["name", "ops"],
        "replace_input_ops": ["op_old", "op_new"],
        "get_fanout_num": [],
        "get_fanout_ops": [],
        "get_input_tensors": [],
        "get_input_tensors_by_name": ["name"],
        "get_input_tensor": ["name", ("idx", 0)],
        "get_output_tensor": [],
        "get_graph": [],
        "infer_shape": [],
    },
    xir.Subgraph: {
        **ATTRS,
        "get_name": [],
        "set_name": ["name"],
        "get_op_num": [],
        "get_ops": [],
        "get_tensor_producer": ["tensor"],
        "get_input_tensors": [],
        "get_output_tensors": [],
        "has_op": [("name", None), ("op", None)],
        "find_child_subgraph_by_op": ["op"],
        "find_child_subgraph_by_op_name": ["name"],
        "get_parent": [],
        "create_child_subgraph": [],
        "get_children_num": [],
        "get_children": [],
        "is_child": ["op"],
        "merge_children": ["child_subgraph_list"],
        "get_graph": [],
        "toposort": [],
        "toposort_child_subgraph": [],
        "save_as_dot": ["fname"],
    },
    xir.Tensor: {**ATTRS, "clone": [], "get_element_num": [], "get_data_size": []},
    xir.OpTemplate: {"get_name": [], "get_types": [], "get_input_ops": [], "get_fanout_ops": []},
    xir.GraphTemplate: {"get_name": [], "get_op": ["name"], "get_op_num": [], "toposort": []},
}
"""Arguments of methods: a name, a name and its default, or the place of one without a name."""

PROPERTIES = {
    xir.Subgraph: ["is_root", "is_leaf", "root", "depth"],
    xir.Tensor: ["name", "ndim", "dims", "dtype", "producer"],
}


@pytest.mark.parametrize(
    ("owner", "method", "arguments"),
    [
        pytest.param(owner, method, arguments, id=f"{owner.__name__}.{method}")
        for owner, methods in PYXIR.items()
        for method, arguments in methods.items()
    ],
)
def test_signature(owner, method, arguments):
    found = getattr(owner, method)
    parameters = list(inspect.signature(found).parameters.values())
    if not isinstance(inspect.getattr_static(owner, method), staticmethod):
        parameters = parameters[1:]
    assert len(parameters) >= len(arguments)
    for parameter, argument in zip(parameters, arguments, strict=False):
        name, default = argument if isinstance(argument, tuple) else (argument, REQUIRED)
        assert parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        assert isinstance(name, int) or parameter.name == name
        if default is not REQUIRED:
            assert parameter.default == default
    for parameter in parameters[len(arguments) :]:  # ours, so it must be possible to leave out
        assert parameter.default is not REQUIRED


@pytest.mark.parametrize(("owner", "names"), PROPERTIES.items())
def test_properties(owner, names):
    for name in names:
        assert isinstance(inspect.getattr_static(owner, name), property)


def test_data_type():
    kinds = ["INT", "UINT", "XINT", "XUINT", "FLOAT", "UNKNOWN"]
    assert [int(getattr(xir.DataType.Type, kind)) for kind in kinds] == [0, 1, 2, 3, 4, 6]
    assert all(getattr(xir.DataType, kind) is xir.DataType.Type[kind] for kind in kinds)
    parsed = xir.DataType("xint8")
    assert (parsed.type, parsed.bit_width) == (xir.DataType.XINT, 8)
    assert xir.DataType(xir.DataType.Type.FLOAT, 32) == xir.DataType("FLOAT32")
    nothing = xir.DataType()
    assert (nothing.type, nothing.bit_width) == (xir.DataType.UNKNOWN, 0)
    nothing.type, nothing.bit_width = xir.DataType.UINT, 16
    assert repr(nothing) == "<xir.DataType 'uint16'>"
    assert str(nothing) == "'uint16'"


@pytest.fixture
def graph() -> xir.Graph:
    graph = xir.Graph(name="g")
    x = graph.create_op(
        name="x", kind="data", attrs={"shape": [1, 4], "data_type": "FLOAT32"}, input_ops=None
    )
    y = graph.create_op("y", "relu", input_ops={"input": [x]}, subgraph=None)
    graph.create_op("z", "add", input_ops={"input": [x, y]})
    return graph


def test_operators_of_sets_where_amds_module_returns_sets(graph):
    """As AMD's own xdputil has it: ``set(op.get_fanout_ops()) & subgraph.get_ops()``."""
    x, y, z = (graph.get_op(name) for name in "xyz")
    root = graph.get_root_subgraph()
    ops = root.get_ops()
    assert set(x.get_fanout_ops()) & ops == ops & set(x.get_fanout_ops()) == {y, z}
    assert ops & graph.get_ops() == ops | {x} == {x} | ops == {x, y, z}
    assert ops - {y} == ops ^ {y} == {y} ^ ops == {x, z} and {x} - ops == set()
    assert graph.get_head_ops() | graph.get_tail_ops() == {x, z}
    assert ops.union([x]) == ops.intersection(ops) == {x, y, z} and ops.difference([x, y]) == {z}
    assert ops.symmetric_difference([x, y]) == {z} and ops.isdisjoint([])
    assert ops.issubset([x, y, z]) and ops.issuperset([x]) and not ops.issuperset(["x"])
    tensors = {op.get_output_tensor() for op in ops}
    assert graph.get_tensors() - tensors == root.get_output_tensors() - tensors == set()
    assert root.get_input_tensors() & tensors == set()
    root.create_child_subgraph()
    assert root.get_children() - set(root.toposort_child_subgraph()) == set()
    assert [op.get_name() for op in ops] + ["w"] == ["x", "y", "z", "w"]
    with pytest.raises(TypeError):
        ops & [x]


def test_keywords(graph, tmp_path):
    y = graph.get_op(name="y")
    y.set_attr(name="note", value="n")
    assert y.has_attr(name="note")
    assert y.get_attr(name="note") == "n"
    assert y.get_input_ops_by_name(name="input") == [graph.get_op(name="x")]
    assert y.get_input_op(name="input", idx=0) is graph.get_op("x")
    assert y.get_input_tensor(name="input", idx=0).name == "x"
    assert y.get_input_num(name="input") == 1
    y.get_output_tensor().name = "renamed"
    assert graph.get_tensor(name="renamed") is y.get_output_tensor()
    graph.get_op("z").replace_input_ops(op_old=y, op_new=graph.get_op("x"))
    graph.get_op("z").set_input_ops(name="input", ops=[y, y])
    root = graph.get_root_subgraph()
    assert root.has_op(op=y)
    assert root.has_op(name="y")
    assert root.has_op(y)
    assert not root.has_op(name="w")
    root.create_child_subgraph()
    merged = root.merge_children(child_subgraph_list=set(root.get_children()[:2]))
    assert root.is_child(op=merged)
    assert root.find_child_subgraph_by_op(op=y) is merged
    assert root.find_child_subgraph_by_op_name(name="z") is not merged
    graph.serialize(fname=str(tmp_path / "g.xmodel"))
    again = xir.Graph.deserialize(fname=str(tmp_path / "g.xmodel"))
    assert again.get_op("y").get_output_tensor().name == "renamed"
    graph.save_as_dot(fname=tmp_path / "g.dot")
    root.save_as_dot(fname=tmp_path / "s.dot")
    assert (tmp_path / "g.dot").read_text() == (tmp_path / "s.dot").read_text()
    clone = xir.Tensor.clone(y.get_output_tensor())
    assert clone.name == "renamed"


def test_texts(graph):
    x = graph.get_op("x")
    assert repr(graph) == "<xir.Graph named 'g'>"
    assert str(graph) == "{name: 'g', op_num: 3, attrs: {}}"
    assert repr(graph.get_root_subgraph()) == "<xir.Subgraph named 'root'>"
    assert str(graph.get_root_subgraph()) == "{name: 'root', op_num: 3, attrs: {}}"
    assert repr(x) == "<xir.Op named 'x'>"
    assert str(x) == "{name: 'x', type: 'data', attrs: {'shape': [1, 4], 'data_type': 'FLOAT32'}}"
    tensor = x.get_output_tensor().set_attr("fix_point", 3)
    assert repr(tensor) == "<xir.Tensor named 'x'>"
    assert str(tensor) == "{name: 'x', shape: [1, 4], type: 'float32', attrs: {'fix_point': 3}}"
    long = graph.create_const_op("c", np.zeros(1000, np.int8))
    assert len(str(long)) < 200


def test_types_of_attributes_from_python():
    subgraph = xir.Graph("g").get_root_subgraph()
    values = {
        "bool": True,
        "int32": 7,
        "double": 0.5,
        "string": "s",
        "int32_vec": [1, 2],
        "bool_vec": [True],
        "double_vec": [0.5],
        "string_vec": ["a"],
        "map_int32": {"a": 1},
        "map_string": {"a": "b"},
        "bytes": b"\0\1",
    }
    for kind, value in values.items():
        subgraph.set_attr(kind, value)
        assert subgraph.get_attr_kind(kind) == kind
        assert subgraph.get_attr(kind) == value
    subgraph.set_attr("memory", np.array([[1, 2], [3, 4]], np.int16).T)
    assert subgraph.get_attr("memory") == b"\1\0\3\0\2\0\4\0"


def test_arrays_as_attributes_of_ops():
    graph = xir.Graph("g")
    values = np.arange(6, dtype=np.float32).reshape(1, 6)
    attrs = {"shape": np.array(values.shape), "data_type": "FLOAT32", "data": values}
    op = graph.create_op("c", "const", attrs)
    assert op.get_attr("shape") == [1, 6]
    assert op.get_attr("data") == values.tobytes()


def test_templates(graph):
    template = xir.GraphTemplate("pattern")
    source = template.add_op("source", {"data", "const"})
    middle = template.add_op("middle", {"relu", "relu6"}, {source: "input"})
    end = template.add_op("end", {"add"}, {source: "", middle: ""})
    assert template.get_name() == "pattern"
    assert template.get_op(name="middle") is middle
    assert template.get_op("none") is None
    assert template.get_op_num() == 3
    assert template.toposort() == [source, middle, end]
    assert (end.get_name(), end.get_types()) == ("end", {"add"})
    assert end.get_input_ops() == {source, middle}
    assert source.get_fanout_ops() == {middle, end}
    assert (end.get_input_num(), source.get_fanout_num(), middle.get_fanout_num()) == (2, 2, 1)
    (match,) = graph.isomorphism(template)
    assert {own.get_name(): op.get_name() for own, op in match.items()} == {
        "source": "x",
        "middle": "y",
        "end": "z",
    }
    assert graph.get_root_subgraph().isomorphism(template) == [match]


def test_templates_find_every_place_and_only_there():
    graph = xir.Graph("g")
    x = graph.create_op("x", "data", {"shape": [1, 4], "data_type": "FLOAT32"})
    names = [f"r{i}" for i in range(4)]
    relus = [graph.create_op(name, "relu", {}, {"input": [x]}) for name in names]
    graph.create_op("a", "add", {}, {"input": [x, relus[0]]})
    graph.create_op("b", "sub", {}, {"input": [relus[1], relus[2]]})
    pair = xir.GraphTemplate("pair")
    first = pair.add_op("first", {"relu"})
    second = pair.add_op("second", {"add", "sub"}, {first: "input"})

    def found() -> list[tuple[str, str]]:
        return sorted((m[first].get_name(), m[second].get_name()) for m in graph.isomorphism(pair))

    assert found() == [("r0", "a"), ("r1", "b"), ("r2", "b")]
    first.set_filter(lambda op: op.get_name() != "r1")
    assert first.get_filter()(relus[0])
    assert found() == [("r0", "a"), ("r2", "b")]
    pair.set_filter(lambda match: match[second].get_type() == "sub")
    assert pair.get_filter() is not None
    assert found() == [("r2", "b")]
    second.set_types({"add"})
    assert found() == []
    pair.set_filter(lambda match: True)
    data = pair.add_op("data", {"data"}, {})
    assert found() == []  # x goes into both, but no template says so
    pair.remove_op(data)
    assert found() == [("r0", "a")]
    assert xir.GraphTemplate("empty").find(graph.get_ops()) == []


def test_wrong_templates():
    template = xir.GraphTemplate("t")
    a = template.add_op("a", {"relu"})
    b = template.add_op("b", {"relu"}, {a: ""})
    with pytest.raises(GraphError, match="template 't' has an op 'a' already"):
        template.add_op("a", {"add"})
    with pytest.raises(GraphError, match="'a' for relu> is used, or not in template 't'"):
        template.remove_op(a)
    with pytest.raises(GraphError, match=r"input <xir.OpTemplate .* is not an op of template 'u'"):
        xir.GraphTemplate("u").add_op("c", {"add"}, {b: ""})
