# SPDX-License-Identifier: Apache-2.0
"""What is refused, and the words it is refused with."""

import pathlib

import numpy as np
import onnx
import pytest
from onnx import external_data_helper, helper, numpy_helper

from opendpu.frontend import load_onnx, lowering
from opendpu.frontend.context import Context
from opendpu.frontend.layout import Value, plain
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.source import read
from opendpu_arch.errors import ModelFormatError, UnsupportedError

node = helper.make_node
X = [1, 4, 9, 7]


def refused(path, error, *texts):
    with pytest.raises(error) as caught:
        load_onnx(path)
    for text in texts:
        assert text in str(caught.value)


def test_missing_file(tmp_path):
    refused(tmp_path / "none.onnx", ModelFormatError, "none.onnx: no such file")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a model", b"\x08\x0a"])
def test_no_model(tmp_path, content):
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    refused(path, ModelFormatError, "bad.onnx is not an ONNX model")


def test_truncated_model(save):
    path = save(
        [node("Conv", ["x", "w"], ["y"])],
        {"x": X},
        {"y": None},
        {"w": np.ones((8, 4, 3, 3), np.float32)},
    )
    path.write_bytes(path.read_bytes()[:600])
    refused(path, ModelFormatError, "is not an ONNX model")


def test_every_node_that_nothing_computes_is_listed(save):
    path = save(
        [
            node("LSTM", ["x", "w", "w"], ["a"], name="memory", hidden_size=3, activations=["no"]),
            node("Fancy", ["x"], ["b"], name="power", domain="com.example"),
            node("Relu", ["a"], ["c"], name="after"),
            node("Plain", ["x"], ["y"], name="later", domain="org.other"),
        ],
        {"x": [1, 4, 4]},
        {"y": None, "b": None, "c": None},
        {"w": np.ones((1, 12, 4), np.float32)},
    )
    refused(
        path,
        UnsupportedError,
        "model.onnx: 3 nodes cannot be converted",
        "node 'memory' (LSTM): XIR has no counterpart of ONNX's operator LSTM; onnxruntime does",
        "node 'power' (com.example.Fancy): XIR has no counterpart of ONNX's operator com.example",
        "node 'later' (org.other.Plain): XIR has no counterpart of ONNX's operator org.other",
    )


def test_every_fault_is_listed(save):
    path = save(
        [
            node("Conv", ["x", "w"], ["a"], name="first"),
            node("Add", ["a", "gone"], ["b"], name="second"),
            node("Relu", ["b"], ["a"], name="third"),
        ],
        {"x": X},
        {"y": None},
    )
    refused(
        path,
        ModelFormatError,
        "model.onnx has 4 faults",
        "node 'first' (Conv) reads 'w', which is neither an input",
        "node 'second' (Add) reads 'gone', which is neither an input",
        "node 'third' (Relu) makes 'a' again",
        "output 'y' is made by no node",
    )


def test_free_dimensions_are_listed_with_an_example(save):
    path = save(
        [node("Add", ["x", "z"], ["y"])],
        {"x": ["N", 4, "height", 7], "z": [1, 4, "height", None]},
        {"y": None},
    )
    refused(
        path,
        UnsupportedError,
        "inputs with free dimensions",
        "x: [N, 4, height, 7]",
        "z: [1, 4, height, ?]",
        "--input-shape x=1,4,224,7 --input-shape z=1,4,224,224",
    )


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ({"x": (1, 0, 9, 7)}, "gives [1, 0, 9, 7] for input 'x', but the model has [N, 4, h, 7]"),
        ({"x": (1, 4, -1, 7)}, "gives [1, 4, -1, 7] for input 'x'"),
        ({"x": (1, 4, 9)}, "gives [1, 4, 9] for input 'x', but the model has [N, 4, h, 7]"),
        ({"other": (1, 4)}, "has input 'other', but the inputs are: x: [N, 4, h, 7]"),
        ({"width": 4}, "has input 'width', but the inputs are"),
    ],
)
def test_sizes_that_do_not_fit(save, sizes, text):
    path = save([node("Relu", ["x"], ["y"])], {"x": ["N", 4, "h", 7]}, {"y": None})
    with pytest.raises(UnsupportedError) as caught:
        load_onnx(path, sizes)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "sizes",
    [{"x": (1, 4, 9, 7)}, {"x": (-1, -1, 9, -1)}, {"": (1, 4, 9, 7)}, {"h": 9}, {"h": (9,)}],
)
def test_sizes_by_input_or_name_of_a_dimension(save, sizes):
    path = save([node("Relu", ["x"], ["y"])], {"x": ["N", 4, "h", 7]}, {"y": None})
    assert load_onnx(path, sizes)["x"].shape == (1, 4, 9, 7)


def test_a_name_has_one_size(save):
    path = save(
        [node("Add", ["x", "z"], ["y"])], {"x": ["N", 4, "h"], "z": ["N", 4, "h"]}, {"y": None}
    )
    assert load_onnx(path, {"x": (2, 4, 5)})["z"].shape == (2, 4, 5)
    text = r"(?s)which gives 5 and 6 for dimension 'h': .*Add"
    with pytest.raises(UnsupportedError, match=text):
        load_onnx(path, {"x": (2, 4, 5), "z": (2, 4, 6)})
    with pytest.raises(UnsupportedError, match=r"dimension 'h' would be 5 and 6 \(input 'z'\)"):
        load_onnx(path, {"h": 5, "z": (2, 4, 6)})


def test_a_name_of_several_sizes_whose_shapes_are_all_given(save):
    """Exporters call the height of every map ``height``."""
    nodes = [
        node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Add", ["p", "z"], ["y"]),
    ]
    path = save(nodes, {"x": [1, 4, "h", "w"], "z": [1, 4, "h", "w"]}, {"y": None})
    graph = load_onnx(path, {"x": (1, 4, 6, 8), "z": (1, 4, 3, 4)})
    assert graph["y"].shape == (1, 3, 4, 4)
    with pytest.raises(UnsupportedError, match="has one size"):
        load_onnx(
            save(
                [*nodes[:1], node("Add", ["p", "z"], ["q"]), node("Add", ["q", "v"], ["y"])],
                {name: [1, 4, "h", "w"] for name in "xzv"}, {"y": None},
            ),
            {"x": (1, 4, 6, 8), "z": (1, 4, 3, 4)},
        )  # fmt: skip


def test_attributes_that_make_no_sense(save):
    path = save([node("MaxPool", ["x"], ["y"], ceil_mode=1)], {"x": X}, {"y": None})
    refused(path, UnsupportedError, "node 'y' (MaxPool)", "attribute 'kernel_shape' is missing")


def test_nothing_is_printed(save, capfd):
    path = save([node("Fancy", ["x"], ["y"], domain="com.example")], {"x": X}, {"y": None})
    refused(path, UnsupportedError, "onnxruntime does not compute 'y' (com.example.Fancy)")
    assert capfd.readouterr() == ("", "")


def test_what_is_behind_an_unknown_operator_is_not_named(save):
    """All of it belongs together, because nobody knows the shape of what goes between."""
    nodes = [node("ATen", ["x"], ["a"]), node("Relu", ["a"], ["b"]), node("Exp", ["b"], ["y"])]
    path = save(nodes, {"x": X}, {"y": None})
    refused(path, UnsupportedError, "onnxruntime does not compute 'a' (ATen): ")


def test_a_model_for_the_cpu_of_one_machine(save):
    nodes = [node("Conv", ["x", "x"], ["y"], domain="com.microsoft.nchwc")]
    path = save(nodes, {"x": X}, {"y": None})
    refused(path, UnsupportedError, "1 operators of com.microsoft.nchwc", "ORT_ENABLE_EXTENDED")


def test_a_directory(tmp_path):
    refused(tmp_path, ModelFormatError, "is a directory, but must be an ONNX file")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers(save, value):
    weights = np.ones((8, 4, 3, 3), np.float32)
    weights[1, 2, 0, :2] = value
    path = save([node("Conv", ["x", "w"], ["y"], name="c")], {"x": X}, {"y": None}, {"w": weights})
    refused(
        path, ModelFormatError,
        "node 'c' (Conv): weights 'w' hold 2 values that are NaN or infinite",
    )  # fmt: skip


def test_a_tensor_of_300_gib(save):
    shape = np.array([300, 1024, 1024, 256])
    path = save([node("Expand", ["x", "s"], ["y"])], {"x": [1, 1, 1, 1]}, {"y": None}, {"s": shape})
    refused(path, ModelFormatError, "tensor 'y' of shape [300, 1024, 1024, 256] takes 300 GiB")


def test_dynamic_batch_becomes_one(save):
    path = save([node("Relu", ["x"], ["y"])], {"x": ["N", 4]}, {"y": ["N", 4]})
    assert load_onnx(path)["x"].shape == (1, 4)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (helper.make_tensor_type_proto(onnx.TensorProto.STRING, [1]), "is of STRING"),
        (helper.make_tensor_type_proto(onnx.TensorProto.BFLOAT16, [1]), "is of BFLOAT16"),
        (
            helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [1])),
            "is of sequence",
        ),
    ],
)
def test_inputs_that_are_no_numbers(kind, text):
    graph = helper.make_graph(
        [node("Identity", ["x"], ["y"])], "g",
        [helper.make_value_info("x", kind)], [helper.make_empty_tensor_value_info("y")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    refused(model, UnsupportedError, f"input 'x' {text}, but must be a tensor of integers")


@pytest.mark.parametrize("opset", [0, -1, 99, 1 << 40])
@pytest.mark.parametrize("last", ["Relu", "DequantizeLinear"])  # one that onnxruntime has lagging
def test_operator_set(save, last, opset):
    path = save([node(last, ["x"], ["y"])], {"x": X}, {"y": None}, opset=opset)
    refused(path, UnsupportedError, f"ONNX operator set {opset}, but 1 to ")


def test_an_operator_whose_name_is_no_text(save):
    """Found by fuzzing: the definition of such a name in another operator set is asked for."""
    path = pathlib.Path(save([node("Relu", ["x"], ["y"])], {"x": X}, {"y": None}, opset=2))
    path.write_bytes(path.read_bytes().replace(b"Relu", b"\xf9elu"))
    refused(path, UnsupportedError, "onnxruntime does not compute 'y'")


def test_a_quantizer_behind_an_unknown_operator(save):
    """Found by fuzzing: what it reads has no type."""
    step = {"s": np.float32(0.5), "z": np.int8(0)}
    nodes = [
        node("QuanpizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    path = save(nodes, {"x": X}, {"y": None}, step, opset=9)  # which has neither
    refused(path, UnsupportedError, "No Op registered for QuanpizeLinear")


def test_a_quantizer_that_reads_nothing(save):
    """Found by fuzzing: its result has the shape of its first input."""
    path = save([node("QuantizeLinear", [], ["y"], name="q")], {"x": X}, {"y": None}, opset=9)
    refused(path, UnsupportedError, "onnxruntime does not compute 'q'")


def test_missing_weights(save):
    path = save([node("Conv", ["x", "w"], ["y"], name="c")], {"x": X}, {"y": None})
    refused(path, ModelFormatError, "node 'c' (Conv) reads 'w', which is neither an input")


def test_missing_output(save):
    path = save([node("Relu", ["x"], ["y"])], {"x": X}, {"z": None})
    refused(path, ModelFormatError, "output 'z' is made by no node")


@pytest.mark.parametrize("present", [False, True])
def test_external_weights(save, tmp_path, present):
    path = save(
        [node("Conv", ["x", "w"], ["y"])],
        {"x": X},
        {"y": None},
        {"w": np.ones((8, 4, 3, 3), np.float32)},
    )
    model = onnx.load(path)
    external_data_helper.convert_model_to_external_data(
        model, location="weights.bin", size_threshold=0
    )
    onnx.save(model, path)
    assert (tmp_path / "weights.bin").is_file()
    if present:
        found = load_onnx(path)["y_weights"].value
        assert found is not None
        assert (
            found.ravel().tolist()
            == numpy_helper.to_array(onnx.load(path).graph.initializer[0]).ravel().tolist()
        )
    else:
        (tmp_path / "weights.bin").unlink()
        refused(path, ModelFormatError, "weights 'w' are in 'weights.bin', which is missing")


@pytest.mark.parametrize(
    ("made", "weights", "reason"),
    [
        (node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2]), {}, "indices"),
        (node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], dilations=[2, 2]), {}, "dilations"),
        (
            node("CumSum", ["x", "e"], ["y"]),
            {"e": np.array(1)},
            "XIR has no counterpart of ONNX's operator CumSum",
        ),
        (
            node(
                "Resize",
                ["x", "r", "s"],
                ["y"],
                mode="linear",
                coordinate_transformation_mode="tf_crop_and_resize",
            ),
            {"s": np.array([1, 1, 2, 2], "f"), "r": np.array([0, 0, 0, 0, 1, 1, 1, 1], "f")},
            "mode 'linear' with 'tf_crop_and_resize' is not supported",
        ),
        (
            node("Resize", ["x", "", "s"], ["y"]),
            {"s": np.array([1, 2, 2, 2], "f")},
            "only height and width may change",
        ),
        (node("Gemm", ["f", "w"], ["y"], transA=1), {"w": np.ones((9, 3), "f")}, "transA"),
    ],
)
def test_what_stays_onnx_says_why(save, agrees, made, weights, reason):
    first = node("Reshape", ["x", "a"], ["f"])
    path = save([first, made], {"x": X}, {"y": None}, weights | {"a": np.array([9, 28])})
    (kept,) = (found for found in agrees(path) if found.kind == "onnx")
    assert reason in kept.reason
    assert (kept.origin.op_type, kept.origin.name) == (made.op_type, "y")


@pytest.mark.parametrize(
    ("made", "weights"),
    [
        (node("Pow", ["x", "e"], ["y"]), {"e": np.array(3.0, "f")}),
        (node("Erf", ["x"], ["y"]), {}),
    ],
)
def test_functions_that_stay_onnx_may_be_tables(save, agrees, made, weights):
    """A reason would keep them on the CPU; where there are no tables, the compiler gives it."""
    path = save([made], {"x": X}, {"y": None}, weights)
    (kept,) = (found for found in agrees(path) if found.kind == "onnx")
    assert not kept.reason


@pytest.mark.parametrize(
    ("made", "weights", "text"),
    [
        (node("MaxPool", ["x"], ["y"], kernel_shape=[12, 2]), {}, "does not fit the input"),
        (node("Reshape", ["x", "s"], ["y"]), {"s": np.array([3, 5])}, "cannot become [3, 5]"),
        (node("Conv", ["x", "w"], ["y"]), {"w": np.ones((8, 3, 3, 3), "f")}, "do not fit 4 input"),
    ],
)
def test_what_has_no_meaning(save, made, weights, text):
    path = save([made], {"x": X}, {"y": None}, weights)
    refused(path, ModelFormatError, f"node 'y' ({made.op_type}): ", text)


def test_types_that_contradict_each_other(save):
    path = save(
        [node("Conv", ["x", "w"], ["y"])], {"x": X}, {"y": None}, {"w": np.ones((4, 4, 1, 1), int)}
    )
    refused(path, ModelFormatError, "the types of node 'y' (Conv) contradict each other")


def test_shapes_are_those_that_onnx_infers(save, monkeypatch):
    path = save([node("Relu", ["x"], ["y"])], {"x": X}, {"y": None})
    source = read(path)
    assert source.shape("y") == tuple(X)
    monkeypatch.setattr(type(source), "shape", lambda *_: (1, 2))
    with pytest.raises(Refusal, match=r"should have shape \[1, 2\], but has \[1, 4, 9, 7\]"):
        lowering._handle(context_of(source), source.clusters[0][0])


def context_of(source):
    context = Context(source)
    context.graph.add("x", "data", X)
    context.values["x"] = Value("x", tuple(X), plain(4))
    return context
