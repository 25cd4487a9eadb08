# SPDX-License-Identifier: Apache-2.0
"""Finding and merging subgraphs for plug-ins."""

import pytest

import xir
from opendpu.plugin import GraphTemplate, PluginHelper
from opendpu_arch.errors import GraphError


def graph(*edges: tuple[str, str, list[str]]) -> xir.Graph:
    """Return ops with name, type and inputs, each a child of its own."""
    made = xir.Graph("test")
    ops: dict[str, xir.Op] = {}
    for name, kind, sources in edges:
        attrs = {"shape": [1, 4], "data_type": "FLOAT32"} if kind == "data" else {}
        attrs |= {"axis": -1} if kind == "softmax" else {}
        given = {"input": [ops[s] for s in sources]} if sources else {}
        ops[name] = made.create_op(name, kind, attrs, given)
    made.get_root_subgraph().create_child_subgraph()
    return made


def diamond() -> xir.Graph:
    return graph(
        ("x", "data", []), ("a", "relu", ["x"]), ("b", "neg", ["a"]), ("c", "exp", ["a"]),
        ("d", "add", ["b", "c"]), ("s", "softmax", ["d"]),
    )  # fmt: skip


def names(subgraphs: list[xir.Subgraph]) -> list[list[str]]:
    return [sorted(op.get_name() for op in s.get_ops()) for s in subgraphs]


def test_filters() -> None:
    made = diamond()
    assert PluginHelper.filter_by_name(made, "b").get_name() == "subgraph_b"
    assert PluginHelper.filter_by_name(made, "subgraph_c").has_op("c")
    assert names(PluginHelper.filter_by_type(made, "exp")) == [["c"]]
    picked = PluginHelper.filter(made, lambda children: children[-2:])
    assert names(picked) == [["d"], ["s"]]
    PluginHelper.filter_by_name(made, "b").set_attr("device", "MINE")
    with pytest.raises(GraphError, match="'test' has no unassigned subgraph for 'b'"):
        PluginHelper.filter_by_name(made, "b")
    assert names(PluginHelper.filter_by_type(made, "neg")) == []


def test_merging_goes_as_far_as_data_allows() -> None:
    made = diamond()
    pick = PluginHelper.filter_by_name
    parts = PluginHelper.merge_subgraph([pick(made, n) for n in ("s", "d", "a", "b")])
    assert names(parts) == [["a", "b"], ["d", "s"]]
    assert names(PluginHelper.merge_subgraph([*parts, pick(made, "c")])) == [list("abcds")]
    assert PluginHelper.merge_subgraph([]) == []


def test_only_children_of_one_parent_can_be_merged() -> None:
    one, two = diamond(), diamond()
    with pytest.raises(GraphError, match="only children of one parent can be merged"):
        PluginHelper.merge_subgraph(
            [PluginHelper.filter_by_name(one, "a"), PluginHelper.filter_by_name(two, "b")]
        )
    with pytest.raises(GraphError, match="only children of one parent can be merged: root"):
        PluginHelper.merge_subgraph([one.get_root_subgraph()])


def test_templates() -> None:
    made = diamond()
    template = GraphTemplate("t")
    top = template.create_op_template("top", ["relu", "relu6"])
    left = template.create_op_template("left", "neg", {"input": [top]})
    right = template.create_op_template("right", "exp", {"input": [top]})
    template.create_op_template("join", "add", {"input": [left, right]})
    assert names(PluginHelper.filter_by_template(made, template)) == [list("abcd")]
    assert PluginHelper.filter_by_template(diamond_with_two_tops(), template) == []


def diamond_with_two_tops() -> xir.Graph:
    return graph(
        ("x", "data", []), ("a", "relu", ["x"]), ("e", "relu", ["x"]), ("b", "neg", ["a"]),
        ("c", "exp", ["e"]), ("d", "add", ["b", "c"]),
    )  # fmt: skip


def test_matches_that_cannot_be_merged_are_left_out() -> None:
    template = GraphTemplate("t")
    top = template.create_op_template("top", "relu")
    template.create_op_template("left", "neg", {"input": [top]})
    assert names(PluginHelper.filter_by_template(diamond(), template)) == [["a", "b"]]
    around = GraphTemplate("around")
    top = around.create_op_template("top", "relu")
    left = around.create_op_template("left", "neg", {"input": [top]})
    around.create_op_template("join", "add", {"input": [left, around_any(around)]})
    assert PluginHelper.filter_by_template(diamond(), around) == []


def around_any(template: GraphTemplate):
    return template.create_op_template("other", "sigmoid")


def test_broken_templates() -> None:
    template = GraphTemplate("t")
    template.create_op_template("a", "relu")
    with pytest.raises(GraphError, match="graph template 't' already has 'a'"):
        template.create_op_template("a", "relu")
    with pytest.raises(GraphError, match="op template 'b' is not of template 't'"):
        template.create_op_template(
            "c", "relu", {"input": [GraphTemplate("u").create_op_template("b", "neg")]}
        )
    assert GraphTemplate("empty").match(diamond().get_ops()[0]) is None
