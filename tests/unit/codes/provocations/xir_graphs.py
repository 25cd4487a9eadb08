# SPDX-License-Identifier: Apache-2.0
"""Graphs, attributes and files that XIR refuses."""

import pathlib

import xir
from provocations.registry import gives
from xir import oplib
from xir.graph import Graph


def graph() -> Graph:
    """Return an input and a ReLU."""
    made = Graph("g")
    data = made.create_op("x", "data", {"shape": [1, 4, 4, 3], "data_type": "FLOAT32"})
    made.create_op("r", "relu", {}, {"input": [data]})
    return made


@gives("XIR_MULTI_DEFINED_OP")
def a_name_twice(folder: pathlib.Path) -> None:
    graph().create_op("x", "data", {"shape": [1], "data_type": "FLOAT32"})


@gives("XIR_ADD_OP_FAIL")
def an_input_of_another_graph(folder: pathlib.Path) -> None:
    graph().create_op("y", "relu", {}, {"input": [graph().get_op("x")]})


@gives("XIR_UNREGISTERED_ARG")
def an_unknown_argument(folder: pathlib.Path) -> None:
    made = graph()
    made.create_op("y", "relu", {}, {"output": [made.get_op("x")]})


@gives("XIR_INVALID_ARG_OCCUR")
def a_missing_argument(folder: pathlib.Path) -> None:
    graph().create_op("y", "relu", {}, {})


@gives("XIR_INVALID_ARG_OCCUR")
def an_argument_of_two_ops(folder: pathlib.Path) -> None:
    made = graph()
    made.create_op("y", "relu", {}, {"input": [made.get_op("x"), made.get_op("r")]})


@gives("XIR_INVALID_ATTR_OCCUR")
def a_missing_attribute(folder: pathlib.Path) -> None:
    made = graph()
    made.create_op("y", "maxpool2d", {}, {"input": [made.get_op("x")]})


@gives("XIR_SHAPE_UNMATCH")
def shapes_that_do_not_fit(folder: pathlib.Path) -> None:
    made = graph()
    made.create_op("y", "reshape", {"shape": [1, 5]}, {"input": [made.get_op("x")]})


@gives("XIR_REMOVE_OP_FAIL")
def an_op_that_is_used(folder: pathlib.Path) -> None:
    made = graph()
    made.remove_op(made.get_op("x"))


@gives("XIR_UNDEFINED_ATTR")
def no_such_attribute(folder: pathlib.Path) -> None:
    graph().get_op("r").get_attr("nothing")


@gives("XIR_UNDEFINED_INPUT_ARG")
def no_such_input(folder: pathlib.Path) -> None:
    graph().get_op("r").get_input_op("weights")


@gives("XIR_OUT_OF_RANGE")
def no_such_index(folder: pathlib.Path) -> None:
    graph().get_op("r").get_input_op("input", 1)


@gives("XIR_UNSUPPORTED_TYPE")
def a_value_of_no_type(folder: pathlib.Path) -> None:
    graph().set_attr("key", object())


@gives("XIR_INVALID_DATA_TYPE")
def no_data_type(folder: pathlib.Path) -> None:
    xir.DataType("nonsense")


@gives("XIR_SUBGRAPH_CREATE_CHILDREN_FOR_NONLEAF")
def children_twice(folder: pathlib.Path) -> None:
    root = graph().get_root_subgraph()
    root.create_child_subgraph()
    root.create_child_subgraph()


@gives("XIR_SUBGRAPH_CREATE_CHILDREN_FOR_NONLEAF")
def split_twice(folder: pathlib.Path) -> None:
    root = graph().get_root_subgraph()
    root.create_child_subgraph()
    root.split([])


@gives("XIR_SUBGRAPH_INVALID_MERGE_REQUEST_NONCHILD")
def no_children_to_merge(folder: pathlib.Path) -> None:
    root = graph().get_root_subgraph()
    root.merge_children([root])


@gives("XIR_MULTI_REGISTERED_OP")
def a_type_with_two_definitions(folder: pathlib.Path) -> None:
    oplib.register(oplib.custom("conv2d"))


@gives("XIR_MULTI_REGISTERED_ATTR")
def an_attribute_twice(folder: pathlib.Path) -> None:
    one = oplib.custom("codes_twice", (oplib.custom("codes_other").attrs[0],) * 2)
    oplib.register(one)


@gives("XIR_FILE_NOT_EXIST")
def no_file(folder: pathlib.Path) -> None:
    Graph.deserialize(folder / "none.xmodel")


@gives("XIR_READ_PB_FAILURE")
def an_empty_file(folder: pathlib.Path) -> None:
    (folder / "empty.xmodel").touch()
    Graph.deserialize(folder / "empty.xmodel")


@gives("XIR_READ_PB_FAILURE")
def a_truncated_file(folder: pathlib.Path) -> None:
    (folder / "cut.xmodel").write_bytes(graph().to_bytes()[:-30])
    Graph.deserialize(folder / "cut.xmodel")


@gives("XIR_READ_PB_FAILURE")
def a_folder(folder: pathlib.Path) -> None:
    Graph.deserialize(folder)
