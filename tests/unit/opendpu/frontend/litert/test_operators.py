# SPDX-License-Identifier: Apache-2.0
"""Every TFLite operator against LiteRT, one at a time, on random inputs."""

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed (opendpu[dev])")

from tflite_files import Network, agree, options, schema

from opendpu.frontend.tflite import load_tflite
from opendpu.frontend.tflite.registry import HANDLERS
from opendpu.ir import to_xir

X = (1, 7, 6, 4)
SAME, VALID = schema.Padding.SAME, schema.Padding.VALID
RELU, RELU6, N1, TANH = 1, 3, 2, 4


def weights(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def ints(*numbers):
    return np.array(numbers, np.int32)


# kind, inputs (a tuple is a shape of random data, an array a constant), options, dtypes of results
CASES = {
    "conv": ("CONV_2D", [X, weights(5, 3, 2, 4), weights(5)],
             options("Conv2D", padding=SAME, strideH=2, strideW=1)),
    "conv even": ("CONV_2D", [X, weights(5, 4, 4, 4), weights(5)],
                  options("Conv2D", padding=SAME, strideH=2, strideW=2)),
    "conv relu6": ("CONV_2D", [X, weights(5, 3, 3, 4), weights(5)],
                   options("Conv2D", padding=VALID, strideH=1, strideW=1,
                           fusedActivationFunction=RELU6)),
    "conv dilated": ("CONV_2D", [X, weights(5, 3, 2, 4), weights(5)],
                     options("Conv2D", padding=SAME, strideH=1, strideW=1, dilationHFactor=2,
                             dilationWFactor=3)),
    "depthwise": ("DEPTHWISE_CONV_2D", [X, weights(1, 3, 3, 4), weights(4)],
                  options("DepthwiseConv2D", padding=SAME, strideH=2, strideW=2,
                          depthMultiplier=1, fusedActivationFunction=RELU)),
    "depthwise by two": ("DEPTHWISE_CONV_2D", [X, weights(1, 3, 3, 8), weights(8)],
                         options("DepthwiseConv2D", padding=VALID, strideH=1, strideW=1,
                                 depthMultiplier=2)),
    "transposed": ("TRANSPOSE_CONV", [ints(1, 14, 12, 5), weights(5, 3, 3, 4), X],
                   options("TransposeConv", padding=SAME, strideH=2, strideW=2)),
    "transposed valid": ("TRANSPOSE_CONV", [ints(1, 15, 13, 5), weights(5, 3, 3, 4), X, weights(5)],
                         options("TransposeConv", padding=VALID, strideH=2, strideW=2)),
    "dense": ("FULLY_CONNECTED", [(1, 9), weights(6, 9), weights(6)],
              options("FullyConnected", fusedActivationFunction=RELU)),
    "dense of a map": ("FULLY_CONNECTED", [X, weights(6, 168), None], options("FullyConnected")),
    "dense of rows": ("FULLY_CONNECTED", [(1, 5, 8), weights(6, 8), weights(6)],
                      options("FullyConnected", keepNumDims=True)),
    "average pool": ("AVERAGE_POOL_2D", [X],
                     options("Pool2D", padding=SAME, strideH=2, strideW=2, filterHeight=3,
                             filterWidth=3)),
    "max pool": ("MAX_POOL_2D", [X],
                 options("Pool2D", padding=SAME, strideH=2, strideW=2, filterHeight=3,
                         filterWidth=2, fusedActivationFunction=RELU)),
    "bilinear": ("RESIZE_BILINEAR", [X, ints(14, 12)],
                 options("ResizeBilinear", halfPixelCenters=True)),
    "bilinear old": ("RESIZE_BILINEAR", [X, ints(14, 12)], options("ResizeBilinear")),
    "bilinear corners": ("RESIZE_BILINEAR", [X, ints(13, 11)],
                         options("ResizeBilinear", alignCorners=True)),
    "nearest": ("RESIZE_NEAREST_NEIGHBOR", [X, ints(14, 18)], options("ResizeNearestNeighbor")),
    "nearest centers": ("RESIZE_NEAREST_NEIGHBOR", [X, ints(14, 12)],
                        options("ResizeNearestNeighbor", halfPixelCenters=True)),
    "nearest odd": ("RESIZE_NEAREST_NEIGHBOR", [X, ints(10, 9)],
                    options("ResizeNearestNeighbor", halfPixelCenters=True)),
    "add": ("ADD", [X, X], options("Add", fusedActivationFunction=RELU)),
    "add constant": ("ADD", [X, weights(4)], options("Add")),
    "sub": ("SUB", [X, X], options("Sub", fusedActivationFunction=N1)),
    "mul": ("MUL", [X, (1, 1, 1, 4)], options("Mul", fusedActivationFunction=RELU6)),
    "div": ("DIV", [X, 2 + np.abs(weights(4))], options("Div")),
    "floor div": ("FLOOR_DIV", [X, weights(4)], None),
    "floor mod": ("FLOOR_MOD", [X, weights(4)], None),
    "add n": ("ADD_N", [X, X, X], None),
    "maximum": ("MAXIMUM", [X, X], None),
    "minimum": ("MINIMUM", [X, weights(1)], None),
    "pow": ("POW", [X, np.full(1, 2, np.float32)], options("Pow")),
    "squared difference": ("SQUARED_DIFFERENCE", [X, X], None),
    "batch matmul": ("BATCH_MATMUL", [(2, 3, 4), (2, 5, 4)], options("BatchMatMul", adjY=True)),
    "equal": ("EQUAL", [X, X], None, np.bool_),
    "not equal": ("NOT_EQUAL", [X, X], None, np.bool_),
    "greater": ("GREATER", [X, X], None, np.bool_),
    "greater equal": ("GREATER_EQUAL", [X, X], None, np.bool_),
    "less": ("LESS", [X, X], None, np.bool_),
    "less equal": ("LESS_EQUAL", [X, X], None, np.bool_),
    "relu6": ("RELU6", [X], None), "relu n1": ("RELU_N1_TO_1", [X], None),
    "relu 0 to 1": ("RELU_0_TO_1", [X], None),
    "leaky": ("LEAKY_RELU", [X], options("LeakyRelu", alpha=0.1)),
    "prelu": ("PRELU", [X, weights(1, 1, 4)], None),
    "prelu of pixels": ("PRELU", [X, weights(7, 6, 4)], None),
    "gelu": ("GELU", [X], options("Gelu")),
    "gelu tanh": ("GELU", [X], options("Gelu", approximate=True)),
    "softmax": ("SOFTMAX", [(1, 9)], options("Softmax", beta=1.0)),
    "softmax beta": ("SOFTMAX", [X], options("Softmax", beta=0.5)),
    "log softmax": ("LOG_SOFTMAX", [(1, 9)], None),
    "l2": ("L2_NORMALIZATION", [X], options("L2Norm")),
    "lrn": ("LOCAL_RESPONSE_NORMALIZATION", [X],
            options("LocalResponseNormalization", radius=1, bias=1.0, alpha=0.3, beta=0.5)),
    "square": ("SQUARE", [X], None),
    **{kind.lower(): (kind, [X], None) for kind in (
        "ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "HARD_SWISH", "LOGISTIC", "NEG", "RELU",
        "ROUND", "SIGN", "SIN", "TANH")},
    "mean": ("MEAN", [X, ints(1, 2)], options("Reducer")),
    "mean kept": ("MEAN", [X, ints(1, 2)], options("Reducer", keepDims=True)),
    "mean of channels": ("MEAN", [X, ints(-1)], options("Reducer", keepDims=True)),
    "sum": ("SUM", [X, ints(1, 3)], options("Reducer")),
    "reduce max": ("REDUCE_MAX", [X, ints(1, 2)], options("Reducer", keepDims=True)),
    "reduce min": ("REDUCE_MIN", [X, ints(3)], options("Reducer")),
    "reduce prod": ("REDUCE_PROD", [X, ints(2)], options("Reducer")),
    "arg max": ("ARG_MAX", [X, ints(-1)], options("ArgMax", outputType=4), np.int64),
    "arg min": ("ARG_MIN", [X, ints(1)], options("ArgMin", outputType=2), np.int32),
    "top": ("TOPK_V2", [(3, 9), ints(4)], None, [np.float32, np.int32]),
    "cumsum": ("CUMSUM", [X, ints(2)], options("Cumsum", reverse=True)),
    "reshape": ("RESHAPE", [X, ints(1, -1)], options("Reshape", newShape=[1, -1])),
    "squeeze": ("SQUEEZE", [(1, 1, 5, 1)], options("Squeeze", squeezeDims=[1])),
    "squeeze all": ("SQUEEZE", [(1, 1, 5, 1)], options("Squeeze")),
    "expand dims": ("EXPAND_DIMS", [(2, 5), ints(-1)], options("ExpandDims")),
    "transpose": ("TRANSPOSE", [X, ints(0, 3, 2, 1)], options("Transpose")),
    "concatenation": ("CONCATENATION", [X, (1, 7, 6, 2)], options("Concatenation", axis=-1)),
    "pack": ("PACK", [X, X], options("Pack", axis=1, valuesCount=2)),
    "unpack": ("UNPACK", [(1, 3, 6)], options("Unpack", axis=1, num=3), [np.float32] * 3),
    "split": ("SPLIT", [ints(3), X], options("Split", numSplits=2), [np.float32] * 2),
    "split v": ("SPLIT_V", [X, ints(1, -1, 2), ints(2)], options("SplitV", numSplits=3),
                [np.float32] * 3),
    "slice": ("SLICE", [X, ints(0, 1, 2, 0), ints(-1, 3, -1, 2)], options("Slice")),
    "strided slice": ("STRIDED_SLICE", [X, ints(0, 1, 5, 0), ints(1, 6, 0, 3), ints(1, 2, -1, 1)],
                      options("StridedSlice", beginMask=1, endMask=4)),
    "strided slice shrinks": ("STRIDED_SLICE", [X, ints(0, -2, 0), ints(1, 9, 3), ints(1, 1, 1)],
                              options("StridedSlice", shrinkAxisMask=2)),
    "pad": ("PAD", [X, np.array([[0, 0], [1, 2], [0, 3], [0, 0]], np.int32)], options("Pad")),
    "pad v2": ("PADV2", [X, np.array([[0, 0], [1, 2], [0, 3], [0, 0]], np.int32),
                         np.array(-2, np.float32)], options("PadV2")),
    "mirror pad": ("MIRROR_PAD", [X, np.array([[0, 0], [1, 2], [0, 3], [0, 0]], np.int32)],
                   options("MirrorPad", mode=0)),
    "mirror pad with the border": (
        "MIRROR_PAD", [X, np.array([[0, 0], [1, 2], [0, 3], [0, 0]], np.int32)],
        options("MirrorPad", mode=1)),
    "scatter nd": ("SCATTER_ND", [np.array([[3], [0], [3]], np.int32), (3, 4), ints(5, 4)],
                   options("ScatterNd")),
    "embedding lookup": ("EMBEDDING_LOOKUP", [ints(2, 0, 2), weights(4, 5)], None),
    "reverse sequence": ("REVERSE_SEQUENCE", [(2, 5, 3), ints(3, 5)],
                         options("ReverseSequence", seqDim=1, batchDim=0)),
    "tile": ("TILE", [(1, 3), ints(2, 2)], options("Tile")),
    "broadcast to": ("BROADCAST_TO", [(1, 3), ints(2, 3)], options("BroadcastTo")),
    "gather": ("GATHER", [X, ints(3, 1)], options("Gather", axis=2)),
    "gather nd": ("GATHER_ND", [X, np.array([[0, 3, 1], [0, 0, 5]], np.int32)],
                  options("GatherNd")),
    "depth to space": ("DEPTH_TO_SPACE", [(1, 3, 4, 12)], options("DepthToSpace", blockSize=2)),
    "space to depth": ("SPACE_TO_DEPTH", [(1, 4, 6, 3)], options("SpaceToDepth", blockSize=2)),
    "space to batch": ("SPACE_TO_BATCH_ND",
                       [X, ints(2, 3), np.array([[1, 0], [0, 3]], np.int32)],
                       options("SpaceToBatchND")),
    "batch to space": ("BATCH_TO_SPACE_ND",
                       [(6, 3, 4, 2), ints(2, 3), np.array([[1, 0], [0, 2]], np.int32)],
                       options("BatchToSpaceND")),
    "reverse": ("REVERSE_V2", [X, ints(1)], options("ReverseV2")),
    "zeros like": ("ZEROS_LIKE", [X], None),
    "cast": ("CAST", [X], options("Cast", inDataType=0, outDataType=2), np.int32),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_computes_what_litert_computes(case, tmp_path, rng):
    kind, inputs, given, *dtypes = CASES[case]
    dtype = dtypes[0] if dtypes else np.float32
    names = [f"y{i}" for i in range(len(dtype))] if isinstance(dtype, list) else ["y"]
    net, feeds, used = Network(), {}, []
    for number, item in enumerate(inputs):
        if item is None:
            used.append("")
        elif isinstance(item, tuple):
            used.append(net.data(f"x{number}", item))
            feeds[used[-1]] = rng.standard_normal(item).astype(np.float32)
        else:
            used.append(net.const(f"c{number}", item))
    net.op(kind, used, names, given, dtype=dtype)
    path = net.write(tmp_path / "one.tflite", names)
    graph = load_tflite(path)
    to_xir(graph)  # every op is as XIR defines it
    agree(graph, path, feeds)


POSITIVE = {"LOG": [X], "SQRT": [X], "RSQRT": [X]}


@pytest.mark.parametrize("kind", POSITIVE)
def test_functions_of_positive_numbers(kind, tmp_path, rng):
    net = Network()
    net.op(kind, [net.data("x", X)], ["y"])
    path = net.write(tmp_path / "one.tflite", ["y"])
    agree(load_tflite(path), path, {"x": rng.uniform(0.1, 4, X).astype(np.float32)})


def test_logic_and_selection(tmp_path, rng):
    net = Network()
    x, y = net.data("x", X), net.data("y", X)
    less = net.op("LESS", [x, y], ["less"], dtype=np.bool_)
    small = net.op("LESS", [x, net.const("half", weights(1))], ["small"], dtype=np.bool_)
    both = net.op("LOGICAL_AND", [less, small], ["both"], dtype=np.bool_)
    either = net.op("LOGICAL_OR", [less, small], ["either"], dtype=np.bool_)
    neither = net.op("LOGICAL_NOT", [either], ["neither"], dtype=np.bool_)
    net.op("SELECT_V2", [both, x, y], ["one"])
    axes = net.const("axes", ints(1, 3))
    for name, kind in (("every", "REDUCE_ALL"), ("any", "REDUCE_ANY")):
        found = net.op(kind, [both, axes], [f"{name}?"], options("Reducer"), dtype=np.bool_)
        net.op("CAST", [found], [name], options("Cast"))
    rank = net.op("RANK", [x], ["rank"], options("Rank"), dtype=np.int32)
    net.op("ADD", [x, net.op("CAST", [rank], ["axes of x"], options("Cast"))], ["three"],
           options("Add"))  # fmt: skip
    net.op("SELECT", [neither, x, y], ["two"])
    path = net.write(tmp_path / "logic.tflite", ["one", "two", "three", "every", "any"])
    feeds = {name: rng.standard_normal(X).astype(np.float32) for name in "xy"}
    agree(load_tflite(path), path, feeds)


def test_shapes_that_a_file_computes(tmp_path, rng):
    net = Network()
    x = net.data("x", X)
    shape = net.op("SHAPE", [x], ["shape"], options("Shape", outType=2), dtype=np.int32)
    ends = [net.const(n, ints(a)) for n, a in (("begin", 1), ("end", 3), ("step", 1))]
    rows = net.op("STRIDED_SLICE", [shape, *ends], ["rows"], options("StridedSlice"),
                  dtype=np.int32)  # fmt: skip
    target = net.op("CONCATENATION", [net.const("one", ints(1)), rows, net.const("all", ints(-1))],
                    ["target"], options("Concatenation", axis=0), dtype=np.int32)  # fmt: skip
    zeros = net.op("FILL", [target and net.const("two", ints(1, 7, 6, 4)),
                            net.const("three", np.float32(3))], ["threes"])  # fmt: skip
    moved = net.op("RESHAPE", [x, target], ["moved"])
    net.op("ADD", [moved, net.op("RESHAPE", [zeros, target], ["again"])], ["y"], options("Add"))
    path = net.write(tmp_path / "shapes.tflite", ["y"])
    agree(load_tflite(path), path, {"x": rng.standard_normal(X).astype(np.float32)})


def test_operators_without_options_and_with_their_wide_number_alone(tmp_path, rng):
    net = Network()
    x = net.data("x", (1, 4))
    half = net.op("MUL", [x, net.const("half", np.full(4, 0.5, np.float32))], ["m"], shape=(1, 4))
    net.op("ADD", [half, x], ["y"], shape=(1, 4))
    for code in net.codes:
        code.deprecatedBuiltinCode = 0
    path = net.write(tmp_path / "bare.tflite", ["y"])
    kinds = [node.kind for node in load_tflite(path) if node.value is None]
    assert kinds == ["data", "scale", "add"]
    agree(load_tflite(path), path, {"x": rng.normal(0, 1, (1, 4)).astype(np.float32)})


def test_one_hot(tmp_path, rng):
    net = Network()
    best = net.op("ARG_MAX", [net.data("x", (2, 5)), net.const("axis", ints(1))], ["best"],
                  options("ArgMax", outputType=2), dtype=np.int32)  # fmt: skip
    net.op(
        "ONE_HOT",
        [best, net.const("depth", np.int32(5)), net.const("on", np.float32(2)),
         net.const("off", np.float32(-1))],
        ["y"], options("OneHot", axis=-1),
    )  # fmt: skip
    path = net.write(tmp_path / "one_hot.tflite", ["y"])
    agree(load_tflite(path), path, {"x": rng.standard_normal((2, 5)).astype(np.float32)})


def test_every_handler_is_compared():
    tested = {case[0] for case in CASES.values()} | set(POSITIVE)
    tested |= {"LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT", "SELECT", "SELECT_V2"}
    tested |= {"REDUCE_ALL", "REDUCE_ANY", "RANK", "SHAPE", "FILL", "ONE_HOT", "DENSIFY"}
    tested |= {
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        "UNIDIRECTIONAL_SEQUENCE_RNN",
    }  # test_control_flow.py
    tested |= {"RFFT2D", "REAL", "IMAG", "COMPLEX_ABS", "RANGE"}  # test_spectral.py
    standard = {kind for kind in HANDLERS if not kind.startswith("CUSTOM")}  # test_mediapipe.py
    assert standard == tested
