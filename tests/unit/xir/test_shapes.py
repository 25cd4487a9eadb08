# SPDX-License-Identifier: Apache-2.0
"""Shape inference: dimensions and types of results, and inputs that do not fit."""

import numpy as np
import pytest

import xir
from opendpu.ir.xir_bridge import from_xir
from opendpu_arch.errors import GraphError
from xir.datatype import DataType

CONV = {"kernel": [3, 5], "stride": [2, 1], "pad": [1, 1, 2, 2]}
FLOOR = {"pad_mode": "FLOOR"}
POOL = {"kernel": [2, 2], "stride": [2, 2]}
QUANT = {"fix_point": 3, "bit_width": 8, "round_mode": "DPU_ROUND", "if_signed": True}
RESIZE = {"mode": "NEAREST", "scale": [2.0, 3.0]}
SLICE = {"begin": [0, 1, -3, 0], "end": [1, 5, 10, 3], "strides": [1, 2, 1, 1]}
PAD = {"paddings": [0, 0, 1, 2, 3, 4, 0, 0], "mode": "CONSTANT"}


def make(kind: str, attrs: dict, *inputs: list[int], dtype: str = "FLOAT32") -> xir.Tensor:
    """Return the result of one op; inputs fill the arguments of its definition in order."""
    graph = xir.Graph("g")
    ops = [
        graph.create_op(f"i{i}", "data", {"shape": dims, "data_type": dtype})
        for i, dims in enumerate(inputs)
    ]
    args = {}
    for arg in graph.get_definition(kind).args:
        take = len(ops) if arg.occurrence.repeated else 1
        args[arg.name], ops = ops[:take], ops[take:]
    return graph.create_op("op", kind, attrs, args).get_output_tensor()


@pytest.mark.parametrize(
    ("kind", "attrs", "inputs", "dims"),
    [
        ("conv1d", {"kernel": [3], "stride": [1], **FLOOR}, ([1, 8, 4], [6, 3, 4]), [1, 6, 6]),
        ("conv2d", {**CONV, **FLOOR}, ([1, 9, 8, 4], [6, 5, 3, 4]), [1, 9, 4, 6]),
        (
            "conv2d",
            {**CONV, "pad_mode": "CEIL"},
            ([1, 9, 8, 4], [6, 5, 3, 4], [6]),
            [1, 9, 5, 6],
        ),
        (
            "conv2d",
            {"kernel": [3, 3], "stride": [2, 2], "pad_mode": "SAME"},
            ([1, 9, 8, 4], [6, 3, 3, 4]),
            [1, 5, 4, 6],
        ),
        (
            "conv2d",
            {"kernel": [3, 3], "stride": [2, 2], "pad_mode": "VALID"},
            ([1, 9, 8, 4], [6, 3, 3, 4]),
            [1, 4, 3, 6],
        ),
        (
            "conv2d",
            {"kernel": [3, 3], "stride": [1, 1], "dilation": [2, 3], **FLOOR},
            ([1, 9, 8, 4], [6, 3, 3, 4]),
            [1, 3, 4, 6],
        ),
        (
            "conv2d",
            {"kernel": [1, 1], "stride": [1, 1], "group": 2, **FLOOR},
            ([1, 2, 2, 4], [6, 1, 1, 2]),
            [1, 2, 2, 6],
        ),
        ("conv2d-fix", CONV, ([1, 9, 8, 4], [6, 5, 3, 4], [6]), [1, 9, 4, 6]),
        ("depthwise-conv2d-fix", CONV, ([1, 9, 8, 4], [1, 5, 3, 4], [4]), [1, 9, 4, 4]),
        ("depthwise-conv2d", {**CONV, **FLOOR}, ([1, 9, 8, 4], [2, 5, 3, 4]), [1, 9, 4, 8]),
        (
            "transposed-conv2d",
            {"kernel": [3, 3], "stride": [2, 2], "pad": [1, 1, 0, 0], **FLOOR},
            ([1, 4, 5, 2], [3, 3, 3, 2]),
            [1, 9, 9, 3],
        ),
        (
            "transposed-conv2d",
            {"kernel": [3, 3], "stride": [2, 2], "pad_mode": "SAME"},
            ([1, 4, 5, 2], [3, 3, 3, 2]),
            [1, 8, 10, 3],
        ),
        (
            "transposed-depthwise-conv2d-fix",
            {"kernel": [3, 3], "stride": [2, 2]},
            ([1, 4, 5, 2], [1, 3, 3, 2]),
            [1, 9, 11, 2],
        ),
        (
            "conv3d",
            {"kernel": [3, 2, 1], "stride": [1, 1, 1], **FLOOR},
            ([1, 4, 5, 6, 2], [3, 1, 2, 3, 2]),
            [1, 4, 4, 4, 3],
        ),
        ("maxpool2d", {**POOL, **FLOOR}, ([1, 5, 4, 3],), [1, 2, 2, 3]),
        ("maxpool2d", {**POOL, "pad_mode": "CEIL"}, ([1, 5, 4, 3],), [1, 3, 2, 3]),
        ("avgpool2d", {**POOL, **FLOOR, "global": True}, ([1, 5, 4, 3],), [1, 1, 1, 3]),
        ("pool-fix", {**POOL, "type": "MAX"}, ([1, 5, 4, 3],), [1, 2, 2, 3]),
        ("add", {}, ([1, 4, 4, 8], [8]), [1, 4, 4, 8]),
        ("mul", {}, ([1, 4, 1, 8], [5, 1]), [1, 4, 5, 8]),
        ("eltwise-fix", {}, ([1, 2, 2, 3], [1, 2, 2, 3]), [1, 2, 2, 3]),
        ("concat", {"axis": 3}, ([1, 2, 2, 3], [1, 2, 2, 5]), [1, 2, 2, 8]),
        ("concat-fix", {"axis": -1}, ([1, 2, 2, 3], [1, 2, 2, 5]), [1, 2, 2, 8]),
        ("stack", {"axis": -1}, ([2, 3], [2, 3]), [2, 3, 2]),
        ("reshape", {"shape": [0, -1]}, ([2, 3, 4],), [2, 12]),
        ("reshape-fix", {"shape": [1, 24]}, ([2, 3, 4],), [1, 24]),
        ("flatten", {"start_axis": 1, "end_axis": -1}, ([32, 5, 5, 2],), [32, 50]),
        ("squeeze", {"axis": [2]}, ([1, 2, 1, 3],), [1, 2, 3]),
        ("squeeze", {}, ([1, 2, 1, 3],), [2, 3]),
        ("transpose", {"order": [0, 3, 1, 2]}, ([1, 2, 3, 4],), [1, 4, 2, 3]),
        ("strided_slice", SLICE, ([1, 6, 8, 3],), [1, 2, 3, 3]),
        ("pad", PAD, ([1, 5, 6, 3],), [1, 8, 13, 3]),
        ("resize", RESIZE, ([1, 4, 5, 3],), [1, 12, 10, 3]),
        ("upsample-fix", RESIZE, ([1, 4, 5, 3],), [1, 12, 10, 3]),
        ("downsample-fix", RESIZE, ([1, 12, 10, 3],), [1, 4, 5, 3]),
        ("reorg", {"scale": 2, "reverse": False}, ([1, 4, 6, 3],), [1, 2, 3, 12]),
        ("reorg-fix", {"scale": 2, "reverse": True}, ([1, 2, 3, 12],), [1, 4, 6, 3]),
        ("pixel-shuffle", {"scale": 2, "upscale": True}, ([1, 2, 3, 12],), [1, 4, 6, 3]),
        ("gstiling", {"stride": 2, "reverse": False}, ([1, 4, 6, 3],), [1, 2, 3, 12]),
        ("reduction_mean", {"axis": [1, 2], "keep_dims": True}, ([1, 4, 5, 3],), [1, 1, 1, 3]),
        ("reduction_max", {"axis": [-1], "keep_dims": False}, ([1, 4, 5, 3],), [1, 4, 5]),
        ("reduction_sum", {"axis": [0], "keep_dims": False}, ([7],), [1]),
        ("inner-product", {"axis": 1}, ([2, 3, 4, 5], [7, 60], [7]), [2, 7]),
        (
            "matmul",
            {"transpose_a": False, "transpose_b": True},
            ([1, 2, 3, 4], [5, 1, 6, 4]),
            [5, 2, 3, 6],
        ),
        ("softmax", {"axis": -1}, ([1, 10],), [1, 10]),
        ("relu6", {}, ([1, 2, 3],), [1, 2, 3]),
        ("batchnorm", {"axis": 3, "epsilon": 0.1}, ([1, 2, 2, 3], *[[3]] * 4), [1, 2, 2, 3]),
        ("upload", {}, ([1, 2],), [1, 2]),
        ("cost_volume", {"maxdisp": 3, "shape": [1, 9], "data_type": "FLOAT32"}, (), [1, 9]),
    ],
)
def test_dimensions(kind, attrs, inputs, dims):
    tensor = make(kind, attrs, *inputs)
    assert tensor.dims == dims
    assert tensor.dtype == "float32"


@pytest.mark.parametrize(
    ("kind", "attrs", "dtype"),
    [
        ("relu", {}, "xint8"),
        ("float2fix", QUANT, "xint8"),
        ("float2fix", {**QUANT, "if_signed": False, "bit_width": 16}, "xuint16"),
        ("fix2float", QUANT, "float32"),
        ("fix", QUANT, "xint8"),
        ("cast", {"data_type": "INT32"}, "int32"),
        ("argmax", {"axis": -1}, "int32"),
        ("shape", {}, "int32"),
    ],
)
def test_types(kind, attrs, dtype):
    assert make(kind, attrs, [1, 4, 4, 2], dtype="XINT8").dtype == dtype


def test_argmax_and_shape_have_their_own_dimensions():
    assert make("argmax", {"axis": -1}, [1, 4, 3]).dims == [1, 4]
    assert make("shape", {}, [1, 4, 3]).dims == [3]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_sizes_that_an_op_has_as_constant_input(dtype):
    """Converters of TensorFlow's and Brevitas' graphs give reshape and resize theirs so."""
    graph = xir.Graph("g")
    x = graph.create_op("x", "data", {"shape": [1, 4, 6, 2], "data_type": "FLOAT32"})
    shape = graph.create_const_op("shape", np.array([1, -1], dtype))
    flat = graph.create_op("flat", "reshape", input_ops={"input": [x], "shape": [shape]})
    assert flat.get_output_tensor().dims == [1, 48]
    size = graph.create_const_op("size", np.array([8, 18], dtype))
    inputs = {"input": [x], "size": [size]}
    resized = graph.create_op("resized", "resize", {"mode": "NEAREST"}, inputs)
    assert resized.get_output_tensor().dims == [1, 8, 18, 2]
    nodes = from_xir(graph)
    assert nodes["flat"].inputs == {"input": ["x"]} and nodes["flat"].shape == (1, 48)
    assert nodes["resized"].inputs == {"input": ["x"]}
    assert nodes["resized"].attrs["scale"] == [3.0, 2.0]  # width first
    for name, wrong in (("no", [0, 18]), ("neither", [8])):
        size = graph.create_const_op(name, np.array(wrong, dtype))
        with pytest.raises(GraphError, match=r"size is \[.*must be 2 positive numbers"):
            graph.create_op("y", "resize", {"mode": "NEAREST"}, {"input": [x], "size": [size]})
    with pytest.raises(GraphError, match="input 'shape' is computed by data, not a constant"):
        graph.create_op("y", "reshape", input_ops={"input": [x], "shape": [x]})


@pytest.mark.parametrize(
    ("kind", "attrs", "inputs", "message"),
    [
        (
            "conv2d-fix",
            CONV,
            ([1, 9, 8, 4], [6, 3, 5, 4]),
            r"op 'op' \(conv2d-fix\): weights have dimensions \[6, 3, 5, 4\], "
            r"but must be \[output channels, 5, 3, 4/1\]",
        ),
        ("conv2d-fix", CONV, ([1, 9, 8, 4], [6, 5, 3, 4], [5]), r"bias has dimensions \[5\]"),
        ("conv2d-fix", CONV, ([9, 8, 4], [6, 5, 3, 4]), r"input has dimensions \[9, 8, 4\]"),
        ("conv2d-fix", CONV, ([1, 0, 8, 4], [6, 5, 3, 4]), "each must be positive"),
        (
            "conv2d-fix",
            {**CONV, "stride": [0, 1]},
            ([1, 9, 8, 4], [6, 5, 3, 4]),
            r"stride is \[0, 1\], but must be 2 positive integers",
        ),
        (
            "conv2d",
            {**CONV, "pad_mode": "FOO"},
            ([1, 9, 8, 4], [6, 5, 3, 4]),
            "pad_mode is 'FOO', but must be one of FLOOR, CEIL, SAME, VALID",
        ),
        ("pool-fix", {**POOL, "type": "MAX"}, ([1, 9, 1, 4],), r"dimensions \[1, 4, 0, 4\]"),
        (
            "depthwise-conv2d-fix",
            CONV,
            ([1, 9, 8, 4], [1, 5, 3, 5]),
            r"must be \[multiplier, 5, 3, 4\]",
        ),
        ("add", {}, ([1, 2], [1, 3]), r"inputs \[1, 2\], \[1, 3\] cannot be broadcast"),
        ("concat", {"axis": 1}, ([1, 2], [2, 2]), "differ in other axes than 1"),
        ("concat", {"axis": 2}, ([1, 2], [1, 2]), r"axis is 2, but must be in -2\.\.1"),
        ("stack", {"axis": 0}, ([1, 2], [2, 1]), "must have the same dimensions"),
        ("reshape", {"shape": [5, -1]}, ([2, 3],), r"shape is \[5, -1\], but must hold the 6"),
        ("squeeze", {"axis": [1]}, ([1, 2],), r"axis is \[1\], but \[1, 2\] is not 1 there"),
        ("transpose", {"order": [0, 0]}, ([1, 2],), r"order is \[0, 0\], but must permute 0\.\.1"),
        ("strided_slice", SLICE, ([1, 2],), "but must be 2 integers each"),
        ("pad", PAD, ([1, 2],), r"paddings are .*, but must be 4 integers"),
        ("upsample-fix", RESIZE, ([1, 2],), "but must be 0 positive factors"),
        ("downsample-fix", RESIZE, ([1, 2],), "must be 2 positive factors for NHWC"),
        ("reorg", {"scale": 2, "reverse": False}, ([1, 3, 4, 1],), "input is 3x4, but must divide"),
        ("reorg", {"scale": 2, "reverse": True}, ([1, 3, 4, 6],), "must be a multiple of 4"),
        ("reorg", {"scale": 0, "reverse": True}, ([1, 3, 4, 6],), "scale is 0, but must be at"),
        ("reorg", {"scale": 1, "reverse": True}, ([1, 3],), r"must have 4 \(NHWC\)"),
        ("inner-product", {"axis": 1}, ([1, 4], [3, 5]), r"weights have .*must be \[k, 4\]"),
        (
            "matmul",
            {"transpose_a": False, "transpose_b": False},
            ([1, 4], [3, 5]),
            "inner dimensions are 4 and 3",
        ),
        ("matmul", {"transpose_a": False, "transpose_b": False}, ([4],), "must be two of at least"),
    ],
)
def test_what_does_not_fit(kind, attrs, inputs, message):
    with pytest.raises(GraphError, match=message):
        make(kind, attrs, *inputs)


@pytest.mark.parametrize("name", ["dpu_mnist_classifier", "tf2_custom_op", "VoxelNet_int"])
def test_every_op_of_amds_files_has_the_shape_that_amd_gave_it(models, name):
    graph = xir.Graph.deserialize(models / "amd_compiled" / f"{name}.xmodel")
    for op in graph.toposort():
        tensor = op.get_output_tensor()
        expected = tensor.dims, tensor.dtype
        tensor.reset([1], DataType("UNKNOWN1"))
        op.infer_shape()
        assert (tensor.dims, tensor.dtype) == expected, op
