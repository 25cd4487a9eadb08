# SPDX-License-Identifier: Apache-2.0
"""Networks quantized by onnxruntime's quantizer, op by op against onnxruntime.

Both compute ``round(sum * scale) + zero``. Ours takes the scale as a 31-bit integer and rounds
halves away from zero; onnxruntime multiplies in float32 and rounds halves to even. So a result may
differ by one unit where the real number lies within float32's error of a half, and nowhere else.
"""

import dataclasses

import numpy as np
import onnx
import onnxruntime
import pytest
from qdq_models import INPUT, draw, inputs_of

from opendpu.frontend import load_onnx
from opendpu.integer import IntegerNetwork
from opendpu.ir import FixedGraph, Node, QuantizedGraph
from opendpu.ops.formats import real_numbers
from opendpu.ops.inference import precise_session
from opendpu.ops.session import Session
from opendpu.quantize import complete

SAMPLES = 3
NEAR = 2e-3
"""How far from a half float32 may err, in units of the result."""
FEW, MANY = range(10), range(10, 200)


@dataclasses.dataclass
class Compared:
    elements: int = 0
    different: int = 0


class Onnxruntime:
    """A quantized model whose integers between operators are outputs too."""

    def __init__(self, path):
        model = onnx.load(path)
        made = {name for node in model.graph.node for name in node.output}
        self.reals, integers = {}, []
        for node in model.graph.node:
            if node.op_type.startswith(("QuantizeLinear", "QLinear", "QGemm")):
                integers.append(node.output[0])
            if node.op_type == "DequantizeLinear" and node.input[0] in made:
                self.reals[node.output[0]] = node.input[0]
                integers.append(node.input[0])
        with_unsigned_weights(model.graph)
        own = {item.name for item in model.graph.output}
        model.graph.output.extend(
            onnx.ValueInfoProto(name=n) for n in dict.fromkeys(integers) if n not in own
        )
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self.names = [item.name for item in self.session.get_outputs()]

    def integers(self, sample):
        """Return the integers of a sample as ours are: signed, NHWC; by names of both kinds."""
        values = dict(zip(self.names, self.session.run(None, {INPUT: sample}), strict=True))
        found = {}
        for name, array in values.items():
            if array.dtype.kind not in "iu":
                continue
            array = array.astype(np.int64) - (128 if array.dtype == np.uint8 else 0)
            found[name] = (array.transpose(0, 2, 3, 1) if array.ndim == 4 else array).astype(
                np.int8
            )
        return found | {r: found[i] for r, i in self.reals.items() if i in found}


WEIGHTS = {"QLinearConv": 3, "QLinearMatMul": 3, "QGemm": 3}
"""Operators of integers, and which input their weights are; the zero point is the second after."""


def with_unsigned_weights(graph: onnx.GraphProto) -> None:
    """Let weights beside uint8 be uint8, too, which changes no result.

    With int8 ones, onnxruntime adds pairs of products in 16 bits on processors with AVX2 and no
    VNNI, where they saturate. Its session option against that, ``session.x64quantprecision``, does
    this while it optimizes, which here it must not. Products of int8 by int8 do not saturate.
    """
    constants = {item.name: item for item in graph.initializer}
    changed = {
        node.input[place]
        for node in graph.node
        if node.op_type in WEIGHTS and constants[node.input[2]].data_type == onnx.TensorProto.UINT8
        for place in (WEIGHTS[node.op_type], WEIGHTS[node.op_type] + 2)
    }
    for name in changed:
        values = onnx.numpy_helper.to_array(constants[name])
        if values.dtype == np.int8:
            moved = (values.astype(np.int16) + 128).astype(np.uint8)
            constants[name].CopyFrom(onnx.numpy_helper.from_array(moved, name))


def test_weights_of_either_kind_give_the_same(tmp_path):
    formats, kinds = onnxruntime.quantization.QuantFormat, onnxruntime.quantization.QuantType
    for kind in (kinds.QUInt8, kinds.QInt8):
        path, shape = draw(3, tmp_path, quant_format=formats.QOperator, activation_type=kind)
        model = onnx.load(path)
        before = model.SerializeToString()
        with_unsigned_weights(model.graph)
        assert (model.SerializeToString() == before) == (kind == kinds.QInt8)
        for sample in inputs_of(np.random.default_rng(1), shape, SAMPLES):
            both = [
                precise_session(given, onnxruntime.SessionOptions()).run(None, {INPUT: sample})[0]
                for given in (before, model.SerializeToString())
            ]
            np.testing.assert_array_equal(*both)


def part(graph: FixedGraph, node: Node, known) -> tuple[list[str], list[Node]]:
    """Return the nodes that make a result of known tensors, and the nodes of these tensors."""
    inside, given = [], {}
    waiting = list(node.sources())
    while waiting:
        source = graph[waiting.pop()]
        if source.tensor_name in known or source.kind == "data-fix":
            given[source.name] = source
        elif source.name not in inside:
            inside.append(source.name)
            waiting += source.sources()
    return [n.name for n in graph if n.name in inside] + [node.name], list(given.values())


def before_rounding(graph: QuantizedGraph, fix: Node, known) -> np.ndarray:
    """Return what a ``fix`` rounds, in units of its result, computed in floating point."""
    inside, feeds = [], {}
    waiting = list(fix.sources())
    while waiting:
        node = graph[waiting.pop()]
        if node.kind == "fix":
            values = known[node.name].reshape(node.shape)
            feeds[node.name] = real_numbers(values, node.quantization)
        elif node.name not in inside:
            inside.append(node.name)
            waiting += node.sources()
    names = [n.name for n in graph if n.name in inside]
    (source,) = fix.inputs["input"]
    made = Session(graph, nodes=names, keep=[source]).run(feeds)[source]
    return made / fix.quantization.scale[0]


def compare(seed: int, folder, **settings) -> Compared:
    path, shape = draw(seed, folder, **settings)
    theirs = Onnxruntime(path)
    graph = complete(load_onnx(path, any_scale=True))
    fixed = IntegerNetwork(graph, scaled=True).graph
    found = Compared()
    (head,) = (n for n in fixed if n.kind == "data-fix")
    first = next(n for n in graph if n.kind == "fix" and n.inputs["input"] == [INPUT])
    for sample in inputs_of(np.random.default_rng(seed + 1), shape, SAMPLES):
        known = theirs.integers(sample)
        known[head.tensor_name] = known[first.name]
        for node in fixed:
            name = node.tensor_name
            if node.value is not None or name not in known or node.kind in (
                "data-fix", "float2fix", "reshape-fix"
            ):  # fmt: skip
                continue
            inside, given = part(fixed, node, known)
            feeds = {g.name: known[g.tensor_name].reshape(g.shape) for g in given}
            ours = Session(fixed, nodes=inside, keep=[node.name]).run(feeds)[node.name]
            want = known[name].reshape(node.shape)
            wrong = ours != want
            found.elements, found.different = (
                found.elements + wrong.size,
                found.different + wrong.sum(),
            )
            if wrong.any():
                assert np.abs(ours.astype(int) - want).max() == 1, node
                exact = before_rounding(graph, graph[name], known).reshape(node.shape)[wrong]
                halves = np.abs(np.abs(exact - np.floor(exact)) - 0.5)
                assert halves.max() < NEAR, (node, exact[halves >= NEAR])
    return found


@pytest.mark.parametrize("seed", [*FEW, *(pytest.param(n, marks=pytest.mark.slow) for n in MANY)])
def test_operators_differ_from_onnxruntime_only_at_halves(seed, tmp_path):
    found = compare(seed, tmp_path)
    assert found.elements > 0
    assert found.different < 0.2 * found.elements
