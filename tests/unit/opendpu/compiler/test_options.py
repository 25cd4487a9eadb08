# SPDX-License-Identifier: Apache-2.0
"""Options as the guide writes them: each honoured or refused."""

import numpy as np
import pytest
from graph_draws import Quantized, compile_and_check
from oracle import evaluate_quantized

from opendpu.compiler.options import ONLY_INPUT, Options
from opendpu.compiler.pipeline import compile_with_report
from opendpu.ir import QuantizedGraph
from opendpu.runtime import GraphRunner
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.target import Target

TARGET = Target.from_name("B512")


@pytest.mark.parametrize(
    "text",
    ['{"output_ops": "a, b"}', "{'output_ops': 'a,b'}", "'output_ops': 'a,b'", "output_ops=a,b",
     '{"output_ops": ["a", "b"]}'],
)  # fmt: skip
def test_forms(text: str) -> None:
    assert Options.parse([text]) == Options(output_ops=("a", "b"))


def test_every_option() -> None:
    found = Options.parse(
        ['{"input_shape": "1,224,224,3", "prefetch": "true", "hd_opt": true, "plugins": "p0,p1"}',
         "reserve_const_data=TRUE", "dump=tile,emit", "dump_dir=here"]
    )  # fmt: skip
    assert found == Options(
        input_shape={ONLY_INPUT: (1, 224, 224, 3)}, plugins=("p0", "p1"), reserve_const_data=True,
        dump=frozenset({"tile", "emit"}), dump_dir="here",
    )  # fmt: skip
    assert Options.parse(["input_shape=a:1,8,8,3;b:1,10"]).input_shape == {
        "a": (1, 8, 8, 3), "b": (1, 10),
    }  # fmt: skip
    assert Options.parse(["output_ops=a", "output_ops=b"]).output_ops == ("b",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour=red", r"\[XCOM_ITEM_UNDEFINED\] option 'colour' is unknown; known: input_shape,"),
        ("hello", r"\[XCOM_STR_PARSE_FAILED\] options are 'hello', but must be JSON such as"),
        ("[1]", r"options are '\[1\]', but must be JSON"),
        ("{1: 2}", "options are '{1: 2}', but must be JSON"),
        ("prefetch=false", "'prefetch' is 'false', but must be true: programs always load ahead"),
        ("hd_opt=no", "option 'hd_opt' is 'no', but must be true or false"),
        ("output_ops=a,,b", "'output_ops' is 'a,,b', but must be names separated by commas"),
        ("input_shape=1,x,3", "but must be positive numbers separated by commas"),
        ("input_shape=1,2;b:3", "must be one shape, or a name in front of each"),
        ('{"input_shape": 3}', "option 'input_shape' is 3, but must be such as '1,224,224,3'"),
        ("dump=foo", r"\[XCOM_PASS_MISS\] no pass is called 'foo'; known: all, fold"),
        ('{"dump_dir": ""}', "option 'dump_dir' is '', but must be the name of a folder"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        Options.parse([text])


def two_layers(size: int = 8) -> tuple[Quantized, str]:
    q = Quantized()
    x = q.conv(q.data(size, size, 5), "a", 9, pad=1, act="relu")
    return q, q.conv(x, "b", 3)


def test_input_shape_changes_every_shape() -> None:
    q, y = two_layers()
    compiled = compile_with_report(
        q.done(y), TARGET, options=Options(input_shape={ONLY_INPUT: (1, 12, 10, 5)})
    )
    (head,) = [op for op in compiled.graph.get_ops() if op.get_type() == "data-fix"]
    assert head.get_output_tensor().dims == [1, 12, 10, 5]
    with GraphRunner(compiled.graph, device="iss", target=TARGET) as runner:
        (tensor,) = runner.get_output_tensors()
        assert tensor.dims == [1, 10, 8, 3]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"no": (1, 2)}, r"option 'input_shape' has input 'no', but the inputs are: x"),
        ({"x": (1, 12, 10, 6)}, r"\[XCOM_SIZE_UNMATCH\] option 'input_shape' does not fit"),
    ],
)
def test_input_shapes_that_do_not_fit(shapes: dict, message: str) -> None:
    q, y = two_layers()
    with pytest.raises(UnsupportedError, match=message):
        compile_with_report(q.done(y), TARGET, options=Options(input_shape=shapes))


@pytest.mark.parametrize("name", ["a_relu", "a_relu_fix"])
def test_output_ops_cut_the_graph(name: str) -> None:
    q, y = two_layers()
    graph = q.done(y)
    compiled = compile_with_report(graph, TARGET, options=Options(output_ops=(name,)))
    assert compiled.graph.get_op("b") is None
    whole = q.done("a_relu_fix")
    given = {"x": np_input(whole)}
    with GraphRunner(compiled.graph, device="iss", target=TARGET) as runner:
        found = runner.run(given)
    assert {k: v.tolist() for k, v in found.items()} == {
        k: v.tolist() for k, v in evaluate_quantized(whole, given).items()
    }


def np_input(graph: QuantizedGraph) -> np.ndarray:
    (head,) = [node for node in graph if node.kind == "data"]
    return np.random.default_rng(4).integers(-128, 128, head.shape, np.int8)


def test_output_ops_that_do_not_exist() -> None:
    q, y = two_layers()
    with pytest.raises(UnsupportedError, match="'output_ops' names 'no', but the graph has no su"):
        compile_with_report(q.done(y), TARGET, options=Options(output_ops=("no",)))


def test_constants_can_be_kept() -> None:
    q, y = two_layers()
    graph = q.done(y)
    for kept in (False, True):
        compiled = compile_with_report(
            graph, TARGET, options=Options(reserve_const_data=kept)
        ).graph
        weights = compiled.get_op("a_w")
        assert weights is not None
        assert len(weights.get_attr("data")) == (9 * 3 * 3 * 5 if kept else 0)
        assert compiled.get_root_subgraph().get_attr("reserve_const_data") is kept
    compile_and_check(graph)
