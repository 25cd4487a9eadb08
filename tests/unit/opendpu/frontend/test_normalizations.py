# SPDX-License-Identifier: Apache-2.0
"""LayerNorm and RMSNorm in the spellings of exporters, and near misses."""

import dataclasses
import pathlib
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from opendpu.export import to_onnx
from opendpu.frontend import load_onnx
from opendpu.ops.foreign import KIND, label_of, opset_of
from opendpu.quantize import quantize

SHAPE = (1, 3, 5, 8)


@dataclasses.dataclass
class Spelling:
    """How an exporter writes a normalization."""

    opset: int = 14
    centred: bool = True
    twice: bool = False
    """Whether the difference is computed twice."""
    power: bool = True
    reciprocal: str = ""
    affine: tuple[str, ...] = ("Mul", "Add")
    swapped: bool = False
    axis: int = -1
    keepdims: int = 1
    leak: str = ""
    """What else is an output."""
    affine_shape: tuple[int, ...] = (1, 1, 1, SHAPE[-1])

    def model(self) -> onnx.ModelProto:
        values = np.random.default_rng(3)
        arrays = {
            "epsilon": np.float32(1e-4), "two": np.float32(2), "one": np.float32(1),
            "axes": np.int64([self.axis]),
            "Mul": values.uniform(0.5, 2, self.affine_shape[-3:]).astype(np.float32),
            "Add": values.standard_normal(self.affine_shape).astype(np.float32),
        }  # fmt: skip
        nodes: list[onnx.NodeProto] = []

        def op(kind: str, name: str, *inputs: str, **attrs: object) -> str:
            names = inputs[::-1] if self.swapped and kind in ("Add", "Mul") else inputs
            nodes.append(helper.make_node(kind, names, [name], **attrs))
            return name

        def mean(name: str, source: str) -> str:
            if self.opset < 18:
                return op("ReduceMean", name, source, axes=[self.axis], keepdims=self.keepdims)
            return op("ReduceMean", name, source, "axes", keepdims=self.keepdims)

        x = below = "x"
        if self.centred:
            average = mean("mean", x)
            x = below = op("Sub", "centred", x, average)
            if self.twice:
                below = op("Sub", "again", "x", average)
        square = op("Pow", "square", x, "two") if self.power else op("Mul", "square", x, x)
        root = op("Sqrt", "root", op("Add", "sum", mean("variance", square), "epsilon"))
        if self.reciprocal:
            inverse = (
                op("Reciprocal", "inverse", root) if self.reciprocal == "Reciprocal"
                else op("Div", "inverse", "one", root)
            )  # fmt: skip
            y = op("Mul", "y", below, inverse)
        else:
            y = op("Div", "y", below, root)
        for kind in self.affine:
            y = op(kind, f"{kind}ed", y, kind)
        outputs = [op("Identity", "result", y), *([self.leak] if self.leak else [])]
        used = {name for node in nodes for name in node.input}
        graph = helper.make_graph(
            nodes, "norm", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, SHAPE)],
            [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in outputs],
            [numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items() if n in used],
        )  # fmt: skip
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8
        )


def labels(path: pathlib.Path) -> list[str]:
    return [label_of(node) for node in load_onnx(path) if node.kind == KIND]


@pytest.fixture
def written(tmp_path: pathlib.Path) -> Callable[[Spelling], pathlib.Path]:
    """Write a spelling to a file."""

    def write(spelling: Spelling) -> pathlib.Path:
        onnx.save(spelling.model(), tmp_path / "model.onnx")
        return tmp_path / "model.onnx"

    return write


LAYER_NORMS = [
    Spelling(), Spelling(swapped=True), Spelling(opset=18), Spelling(opset=11, power=False),
    Spelling(twice=True), Spelling(affine=()), Spelling(affine=("Mul",)), Spelling(axis=3),
    Spelling(affine=("Add",)), Spelling(reciprocal="Reciprocal"), Spelling(reciprocal="Div"),
    Spelling(axis=1, affine_shape=(1, SHAPE[1], 1, 1)), Spelling(axis=-3, affine=(), twice=True),
]  # fmt: skip
RMS_NORMS = [
    Spelling(centred=False, affine=("Mul",), reciprocal="Reciprocal"),
    Spelling(centred=False, affine=("Mul",), reciprocal="Div", power=False, swapped=True),
    Spelling(centred=False, affine=()), Spelling(centred=False, opset=18, affine=("Mul", "Add")),
]  # fmt: skip


@pytest.mark.parametrize("spelling", LAYER_NORMS, ids=str)
def test_layer_norm(spelling: Spelling, written, agrees) -> None:
    assert labels(written(spelling)) == ["LayerNormalization"]
    agrees(written(spelling))


def test_what_is_no_number_a_channel_stays_behind(written, agrees) -> None:
    spelling = Spelling(axis=1)  # scale and bias are for each column
    found = load_onnx(written(spelling))
    assert [label_of(node) for node in found if node.kind == KIND] == ["LayerNormalization"]
    assert {"scale", "add"} & {node.kind for node in found}
    agrees(written(spelling))


@pytest.mark.parametrize("spelling", RMS_NORMS, ids=str)
def test_rms_norm(spelling: Spelling, written, agrees) -> None:
    assert labels(written(spelling)) == ["SimplifiedLayerNormalization"]
    agrees(written(spelling))


@pytest.mark.parametrize(
    "spelling",
    [
        Spelling(axis=2), Spelling(axis=-2), Spelling(leak="root"), Spelling(leak="centred"),
        Spelling(leak="variance"), Spelling(leak="mean"),
    ],
    ids=str,
)  # fmt: skip
def test_near_misses(spelling: Spelling, written, agrees) -> None:
    found = labels(written(spelling))
    assert not {"LayerNormalization", "SimplifiedLayerNormalization"}.intersection(found)
    agrees(written(spelling))


@pytest.mark.parametrize("spelling", [Spelling(opset=12), Spelling(opset=11, centred=False)])
def test_models_older_than_the_operator_are_written_quantized(spelling):
    """PP-OCR's recognition has operator set 12: its LayerNorm had it too, and no Q/DQ fits."""
    model = spelling.model()
    graph = load_onnx(model)
    (norm,) = [node for node in graph if node.kind == KIND]
    assert opset_of(norm) >= 17
    data = np.random.default_rng(1).standard_normal((8, *SHAPE[1:])).astype(np.float32)
    made = to_onnx(quantize(graph, {"x": data}), "native")
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": data[:1]})
    (found,) = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": data[:1]})
    np.testing.assert_allclose(found, wanted, atol=0.1)
