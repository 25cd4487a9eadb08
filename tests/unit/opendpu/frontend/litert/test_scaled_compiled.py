# SPDX-License-Identifier: Apache-2.0
"""Quantized TFLite operators, compiled: the DPU's bytes are those of LiteRT's reference kernels."""

import itertools

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed (opendpu[dev])")

from scaled_draws import RELU, VALID, Draws, X, feeds_of, reference
from tflite_files import options

from opendpu import api
from opendpu.compiler.pipeline import compile_with_report
from opendpu.frontend.tflite import load_tflite
from opendpu.inspect.text import summary_lines
from opendpu.quantize import complete
from opendpu.runtime import GraphRunner
from opendpu_arch.target import Target

SEEDS = range(1)
SAMPLES = 2


def check(net, folder, *, parts=("DPU",), target="B64+scaled") -> str:
    """Compile a file; compare the simulator with LiteRT; return the compiler's report."""
    path = net.write(folder / "op.tflite", ["y"])
    compiled = compile_with_report(
        complete(load_tflite(path, any_scale=True)), Target.from_name(target)
    )
    root = compiled.graph.get_root_subgraph()
    devices = [part.get_attr("device") for part in root.toposort_child_subgraph()]
    if parts is not None:
        assert tuple(d for d in devices if d != "USER") == parts, str(compiled.report)
    feeds = {name: values[-SAMPLES:] for name, values in feeds_of(net, net.random).items()}
    (expected,) = reference(path, feeds).values()
    assert len(np.unique(expected)) > 2
    with GraphRunner(compiled.graph, device="iss") as runner:
        (made,) = runner.get_output_tensors()
        for number, wanted in enumerate(expected):
            given = {
                tensor.name: feeds[tensor.name][number : number + 1]
                for tensor in runner.get_input_tensors()
            }
            result = {made.name: np.empty(made.dims, made.data_type.numpy())}
            runner.wait(runner.execute_async(given, result))
            np.testing.assert_array_equal(result[made.name].reshape(wanted.shape), wanted)
    return str(compiled.report)


def constant(net, shape):
    values = net.random.integers(-128, 128, shape).astype(np.int8)
    return net.const("c", values, [net.scale(0.01, 0.2)], [net.zero()])


SHAPES = {"one": (), "channels": (4,), "pixel": (1, 1, 1, 4), "columns": (1, 1, 6, 4), "all": X}


@pytest.mark.parametrize(
    ("kind", "of", "first"),
    [
        *itertools.product(("Add", "Sub", "Mul"), SHAPES, (False,)),
        *itertools.product(("Sub", "Add"), ("one", "channels", "all"), (True,)),
    ],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_sums_and_products_with_constants(kind, of, first, seed, tmp_path):
    net = Draws().drawn(seed)
    x, c = net.integers("x", X), constant(net, SHAPES[of])
    scale = max(net.scale_of(x), net.scale_of(c)) * net.scale(0.9, 2.5)
    net.result(kind.upper(), [c, x] if first else [x, c], options(kind), X, scale=scale)
    check(net, tmp_path)


@pytest.mark.parametrize(("kind", "first"), [("Sub", True), ("Sub", False), ("Add", True)])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_pixel_for_all_places(kind, first, seed, tmp_path):
    net = Draws().drawn(seed)
    x = net.integers("x", X)
    axes = net.const("axes", np.array([1, 2], np.int32))
    pixel = net.op(
        "MEAN", [x, axes], ["pixel"], options("Reducer", keepDims=True), dtype=np.int8,
        shape=(1, 1, 1, 4), scale=net.scale_of(x) * net.scale(0.8, 1.2), zero=net.zero(),
    )  # fmt: skip
    scale = net.scale_of(x) * net.scale(0.9, 2.5)
    net.result(kind.upper(), [pixel, x] if first else [x, pixel], options(kind), X, scale=scale)
    check(net, tmp_path)


@pytest.mark.parametrize("kind", ["MAXIMUM", "MINIMUM"])
@pytest.mark.parametrize("of", ["map", "channels", "one"])
@pytest.mark.parametrize("seed", SEEDS)
def test_maxima_and_minima(kind, of, seed, tmp_path):
    net = Draws().drawn(seed)
    x = net.integers("x", X)
    scale, zero = net.scale_of(x), net.zero_of(x)
    if of == "map":
        other = net.data("a", X, np.int8, scale, zero)
    else:
        values = net.random.integers(-128, 128, SHAPES[of]).astype(np.int8)
        other = net.const("c", values, [scale], [zero])
    net.alike(kind, [x, other], options("MaximumMinimum"), X)
    check(net, tmp_path)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("target", ["B64+scaled", "B64+table+scaled"])
def test_slopes_of_negative_elements(seed, target, tmp_path):
    net = Draws().drawn(seed)
    x = net.integers("x", X)
    values = net.random.integers(-128, 128, (1, 1, 4)).astype(np.int8)
    slopes = net.const("c", values, [net.scale(0.001, 0.004)], [net.zero()])
    net.result("PRELU", [x, slopes], None, X, scale=net.scale_of(x) * net.scale(0.3, 2.0))
    check(net, tmp_path, target=target)


@pytest.mark.parametrize("corners, half", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("size", [(14, 12), (28, 24), (7, 12), (13, 5), (3, 3), (14, 18)])
def test_bilinear_resizing(corners, half, size, tmp_path):
    """Of whole factors that are powers of two on the DPU, else on the CPU."""
    net = Draws().drawn(sum(size))
    scale, zero = net.scale(0.01, 0.1), net.zero()
    x = net.integers("x", X)
    positive = net.op(
        "RELU", [x], ["r"], None, dtype=np.int8, shape=X, scale=scale, zero=zero
    )  # fmt: skip
    given = options("ResizeBilinear", alignCorners=corners, halfPixelCenters=half)
    to = net.const("s", np.array(size, np.int32))
    net.result("RESIZE_BILINEAR", [positive, to], given, (1, *size, 4), scale, zero)
    factors = [made / given for made, given in zip(size, X[1:3], strict=True)]
    on_dpu = not corners and all(f in (1, 2, 4) for f in factors)
    report = check(net, tmp_path, parts=("DPU",) if on_dpu else None)
    assert on_dpu or "of BILINEAR" in report or "whole numbers" in report


@pytest.mark.parametrize("transposes", [*itertools.product((False, True), repeat=2)])
@pytest.mark.parametrize("seed", SEEDS)
def test_products_of_two_feature_maps(transposes, seed, tmp_path):
    net = Draws().drawn(seed)
    shapes = [(1, 3, 5, 7), (1, 3, 7, 6)]
    names = [
        net.integers(name, (*shape[:2], *shape[:1:-1]) if flip else shape)
        for name, shape, flip in zip("xa", shapes, transposes, strict=True)
    ]
    given = options("BatchMatMul", adjX=transposes[0], adjY=transposes[1])
    scale = net.scale_of("x") * net.scale_of("a") * net.scale(50, 200)
    net.result("BATCH_MATMUL", names, given, (1, 3, 5, 6), scale=scale)
    assert "products of two feature maps whose scales" in check(net, tmp_path, parts=None)


def test_a_pixel_is_repeated_whatever_the_factor(tmp_path):
    net = Draws().drawn(0)
    x = net.integers("x", X)
    axes, scale, zero = net.const("axes", np.array([1, 2], np.int32)), net.scale(0.01, 0.1), 5
    pixel = net.op(
        "MEAN", [x, axes], ["pixel"], options("Reducer", keepDims=True), dtype=np.int8,
        shape=(1, 1, 1, 4), scale=scale, zero=zero,
    )  # fmt: skip
    given = options("ResizeBilinear", halfPixelCenters=True)
    to = net.const("s", np.array((9, 11), np.int32))
    net.result("RESIZE_BILINEAR", [pixel, to], given, (1, 9, 11, 4), scale, zero)
    check(net, tmp_path)


@pytest.mark.parametrize("crops", [0, 1])
@pytest.mark.parametrize("sequence", [False, True])
@pytest.mark.parametrize("depthwise", [False, True])
def test_dilated_convolutions_in_parts(crops, sequence, depthwise, tmp_path):
    """Pixels go to the batch and back; along a sequence, an axis is added and dropped."""
    net, rate, taps = Draws().drawn(crops), 2, 3
    axes = 1 if sequence else 2
    size, channels = (6,) if sequence else (6, 8), 4
    x = net.integers("x", (1, *size, channels))
    pads = np.array([[crops + rate, rate + crops]] * axes, np.int32)
    block = net.const("block", np.full(axes, rate, np.int32))
    small = tuple((n + int(p.sum())) // rate for n, p in zip(size, pads, strict=True))

    def moved(kind, inputs, name, shape, like, made=None):
        return net.op(
            kind, inputs, [name], made, dtype=np.int8, shape=shape, scale=net.scale_of(like),
            zero=net.zero_of(like),
        )  # fmt: skip

    batch = rate**axes
    given = moved(
        "SPACE_TO_BATCH_ND", [x, block, net.const("pads", pads)], "spread",
        (batch, *small, channels), x,
    )  # fmt: skip
    if sequence:
        shape = (batch, 1, *small, channels)
        to = net.const("to", np.array(shape, np.int32))
        given = moved("RESHAPE", [given, to], "four", shape, x, options("Reshape"))
    kernel = (1, taps) if sequence else (taps, taps)
    w, scales = net.weights(
        "w", (1, *kernel, channels) if depthwise else (channels, *kernel, channels),
        3 if depthwise else 0, True,
    )  # fmt: skip
    b = net.bias("b", channels, scales, net.scale_of(x))
    settings = {"strideH": 1, "strideW": 1, "padding": VALID, "fusedActivationFunction": RELU}
    kind, options_of = ("DEPTHWISE_CONV_2D", "DepthwiseConv2D") if depthwise else (
        "CONV_2D", "Conv2D")  # fmt: skip
    less = tuple(n - taps + 1 for n in small)
    made = net.op(
        kind, [given, w, b], ["made"], options(options_of, **settings, **(
            {"depthMultiplier": 1} if depthwise else {})), dtype=np.int8,
        shape=(batch, *((1, *less) if sequence else less), channels),
        scale=net.scale(0.02, 0.4), zero=net.zero(),
    )  # fmt: skip
    if sequence:
        shape = (batch, *less, channels)
        to = net.const("back", np.array(shape, np.int32))
        made = moved("RESHAPE", [made, to], "three", shape, made, options("Reshape"))
    cut = net.const("crops", np.full((axes, 2), crops, np.int32))
    whole = tuple(n * rate - 2 * crops for n in less)
    like = "made"
    net.result("BATCH_TO_SPACE_ND", [made, block, cut], None, (1, *whole, channels),
               net.scale_of(like), net.zero_of(like))  # fmt: skip
    report = check(net, tmp_path, target="B512+scaled")
    assert "assigned to CPU" not in report


def test_inspection_says_whose_scales_it_is_about(tmp_path):
    net = Draws().drawn(0)
    x, c = net.integers("x", X), constant(net, (4,))
    net.result("ADD", [x, c], options("Add"), X, scale=1.0)
    path = net.write(tmp_path / "op.tflite", ["y"])
    native = api.inspect(path, target="B64+scaled")
    assert not native.requantized
    assert not native.assumed_scales
    assert not native.on("CPU")
    plain = api.inspect(path, target="B64")
    assert plain.requantized
    assert plain.as_dict()["requantized"]
    (line,) = (line for line in summary_lines(plain) if "quantized with scales" in line)
    assert "compile --requantize" in line
