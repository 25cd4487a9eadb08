# SPDX-License-Identifier: Apache-2.0
"""The tree of subgraphs."""

import pytest

import xir
from opendpu_arch.errors import GraphError


def chain(count: int = 4) -> tuple[xir.Graph, list[xir.Op]]:
    graph = xir.Graph("chain")
    ops = [graph.create_op("op0", "data", {"shape": [1, 2], "data_type": "FLOAT32"})]
    for i in range(1, count):
        ops.append(graph.create_op(f"op{i}", "relu", {}, {"input": [ops[-1]]}))
    return graph, ops


def names(items) -> list[str]:
    return [item.get_name() for item in items]


def test_a_new_graph_is_one_leaf():
    graph, ops = chain()
    root = graph.get_root_subgraph()
    assert root.get_name() == "root"
    assert root.is_root
    assert root.is_leaf
    assert root.depth == 0
    assert root.get_ops() == root.toposort() == ops
    assert root.get_parent() is None


def test_children_one_an_op_then_merged():
    graph, ops = chain()
    root = graph.get_root_subgraph()
    children = root.create_child_subgraph()
    assert names(children) == [f"subgraph_op{i}" for i in range(4)]
    assert root.get_ops() == ops
    merged = root.merge_children({children[1], children[2]})
    assert merged.get_name() == "subgraph_op1"
    assert names(root.get_children()) == ["subgraph_op0", "subgraph_op1", "subgraph_op3"]
    assert merged.is_leaf
    assert root.is_child(merged)
    assert merged.get_parent() is merged.root is root
    assert merged.depth == 1
    assert merged.get_ops() == ops[1:3]
    assert [t.name for t in merged.get_input_tensors()] == ["op0"]
    assert [t.name for t in merged.get_output_tensors()] == ["op2"]
    assert merged.has_op("op2")
    assert merged.has_op(ops[2])
    assert not merged.has_op(ops[3])
    assert root.find_child_subgraph_by_op(ops[2]) is merged
    assert root.find_child_subgraph_by_op_name("op3").get_name() == "subgraph_op3"
    assert root.find_child_subgraph_by_op_name("nobody") is None
    assert merged.get_tensor_producer(ops[1].get_output_tensor()) is ops[1]
    assert merged.get_tensor_producer("op3") is None


def test_children_in_topological_order():
    graph, ops = chain()
    root = graph.get_root_subgraph()
    root.split([("last", ops[3:]), ("first", ops[:1]), ("middle", ops[1:3])])
    assert names(root.toposort_child_subgraph()) == ["first", "middle", "last"]
    assert names(root.get_children()) == ["last", "first", "middle"]


def test_nested_children_and_new_ops():
    graph, ops = chain()
    root = graph.get_root_subgraph()
    dpu, _ = root.split([("dpu", ops[:3]), ("cpu", ops[3:])])
    dpu.create_child_subgraph()
    assert dpu.get_op_num() == 3
    op = graph.create_op("new", "relu", {}, {"input": [ops[3]]})
    assert root.find_child_subgraph_by_op(op).get_name() == "subgraph_new"
    inside = graph.create_op("more", "relu", {}, {"input": [ops[2]]}, subgraph=dpu)
    assert dpu.has_op(inside)
    assert graph.get_leaf_subgraph(inside).get_name() == "subgraph_more"
    graph.remove_op(inside)
    assert names(dpu.get_children()) == ["subgraph_op0", "subgraph_op1", "subgraph_op2"]


def test_merging_inner_nodes_keeps_their_children():
    graph, ops = chain()
    root = graph.get_root_subgraph()
    first, second = root.split([("a", ops[:2]), ("b", ops[2:])])
    first.create_child_subgraph()
    merged = root.merge_children([first, second])
    assert names(merged.get_children()) == ["subgraph_op0", "subgraph_op1", "b"]
    assert all(child.get_parent() is merged for child in merged.get_children())
    assert root.get_children() == [merged]


def test_what_is_refused():
    graph, ops = chain()
    root = graph.get_root_subgraph()
    with pytest.raises(GraphError, match="must be in exactly one group: op3"):
        root.split([("a", ops[:3])])
    with pytest.raises(GraphError, match="must be in exactly one group: op0"):
        root.split([("a", ops), ("b", ops[:1])])
    with pytest.raises(GraphError, match="subgraph 'root' holds ops"):
        root.add_child("x")
    children = root.create_child_subgraph()
    with pytest.raises(GraphError, match="subgraph 'root' already has children"):
        root.create_child_subgraph()
    with pytest.raises(GraphError, match="already has children"):
        root.split([])
    with pytest.raises(GraphError, match="no children to merge: root"):
        root.merge_children([children[0], root])
    with pytest.raises(GraphError, match="no children to merge"):
        root.merge_children([])


def test_subgraphs_that_need_each_other_are_reported():
    graph, ops = chain()
    root = graph.get_root_subgraph()
    root.split([("outer", [ops[0], ops[2]]), ("inner", [ops[1], ops[3]])])
    with pytest.raises(GraphError, match=r"form a cycle: .*outer.*inner"):
        root.toposort_child_subgraph()


def test_subgraph_dot(tmp_path):
    graph, ops = chain()
    child, _ = graph.get_root_subgraph().split([("a", ops[:2]), ("b", ops[2:])])
    child.set_name("renamed").save_as_dot(tmp_path / "a.dot")
    assert 'digraph "renamed"' in (tmp_path / "a.dot").read_text()
