# SPDX-License-Identifier: Apache-2.0
"""Every TensorFlow operator against TensorFlow, on random inputs."""

import numpy as np
import pytest

pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")

from tf_graphs import agree, frozen_graph, load_function, tf

from opendpu.frontend.tensorflow.registry import HANDLERS
from opendpu_arch.errors import UnsupportedError

X = (1, 7, 6, 4)


def weights(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


raw = tf.raw_ops
HWIO, HWC1 = weights(3, 2, 4, 5), weights(3, 3, 4, 1)
STATISTICS = [np.abs(weights(4)) + 0.1, weights(4), weights(4) * 0.5, np.abs(weights(4)) + 0.2]
PADS = [[0, 0], [1, 2], [0, 3], [0, 0]]
CASES = {
    "conv": lambda x: tf.nn.conv2d(x, HWIO, [2, 1], "SAME") + weights(5),
    "conv explicit": lambda x: tf.nn.conv2d(x, HWIO, 1, [[0, 0], [1, 0], [2, 1], [0, 0]]),
    "conv dilated": lambda x: tf.nn.conv2d(x, HWIO, 1, "SAME", dilations=[2, 3]),
    "conv groups": lambda x: tf.nn.conv2d(x, weights(3, 3, 2, 6), 1, "VALID"),
    "depthwise": lambda x: tf.nn.depthwise_conv2d(x, HWC1, [1, 2, 2, 1], "SAME"),
    "depthwise by two": lambda x: tf.nn.depthwise_conv2d(
        x, weights(3, 3, 4, 2), [1, 1, 1, 1], "VALID"
    ),
    "depthwise dilated": lambda x: tf.nn.depthwise_conv2d(
        x, HWC1, [1, 1, 1, 1], "SAME", dilations=[2, 2]
    ),
    "transposed": lambda x: tf.nn.conv2d_transpose(x, weights(3, 3, 5, 4), [1, 14, 12, 5], 2),
    "transposed odd": lambda x: tf.nn.conv2d_transpose(x, weights(3, 3, 5, 4), [1, 13, 11, 5], 2),
    "transposed valid": lambda x: tf.nn.conv2d_transpose(
        x, weights(2, 2, 5, 4), [1, 15, 13, 5], 2, "VALID"
    ),
    "max pool": lambda x: tf.nn.max_pool2d(x, [3, 2], 2, "SAME"),
    "average pool": lambda x: tf.nn.avg_pool2d(x, 3, 2, "SAME"),
    "matmul": lambda x: tf.matmul(tf.reshape(x, [6, 28]), weights(28, 5)),
    "matmul transposed": lambda x: tf.matmul(
        tf.reshape(x, [6, 28]), weights(5, 28), transpose_b=True
    ),
    "batch matmul": lambda x: tf.matmul(x, x, transpose_b=True),
    "batch matmul v1": lambda x: raw.BatchMatMul(x=x, y=x, adj_x=True),
    "batch matmul v3": lambda x: raw.BatchMatMulV3(x=x, y=x, Tout=tf.float32, adj_y=True),
    "bias": lambda x: tf.nn.bias_add(x, weights(4)),
    "bias v1": lambda x: raw.BiasAddV1(value=x, bias=weights(4)),
    "bias first": lambda x: raw.BiasAdd(value=x, bias=weights(7), data_format="NCHW"),
    **{
        f"batch norm {version}": lambda x, op=op: op(
            x=x, scale=STATISTICS[0], offset=STATISTICS[1], mean=STATISTICS[2],
            variance=STATISTICS[3], is_training=False, epsilon=1e-3,
        )[0]
        for version, op in enumerate(
            (raw.FusedBatchNorm, raw.FusedBatchNormV2, raw.FusedBatchNormV3), 1
        )
    },
    "lrn": lambda x: tf.nn.lrn(x, 1, 1.0, 0.3, 0.5),
    "bilinear": lambda x: tf.image.resize(x, [14, 12]),
    "bilinear old": lambda x: tf.compat.v1.image.resize_bilinear(x, [14, 12]),
    "bilinear corners": lambda x: tf.compat.v1.image.resize_bilinear(x, [13, 11], True),
    "nearest": lambda x: tf.image.resize(x, [14, 18], "nearest"),
    "nearest old": lambda x: tf.compat.v1.image.resize_nearest_neighbor(x, [14, 12]),
    "depth to space": lambda x: tf.nn.depth_to_space(x, 2),
    "space to depth": lambda x: tf.nn.space_to_depth(x[:, :6], 2),
    "space to batch": lambda x: tf.space_to_batch(x, [2, 3], [[1, 0], [0, 3]]),
    "batch to space": lambda x: tf.batch_to_space(
        tf.reshape(x, [6, 7, 2, 2]), [2, 3], [[1, 0], [0, 2]]
    ),
    **{name.lower(): lambda x, op=name: getattr(raw, op)(x=x) for name in (
        "Abs", "Atan", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Neg", "Rint",
        "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Square", "Tan", "Tanh",
        "ZerosLike", "OnesLike")},
    **{name.lower(): lambda x, op=name: getattr(raw, op)(features=x) for name in (
        "Elu", "Relu", "Relu6", "Selu", "Softplus", "Softsign")},
    **{name.lower(): lambda x, op=name: getattr(raw, op)(x=tf.abs(x) / 4 + 0.1) for name in (
        "Acos", "Asin", "Inv", "Log", "Log1p", "Reciprocal", "Rsqrt", "Sqrt")},
    "is nan": lambda x: tf.where(tf.math.is_nan(x), 1.0, x),
    "leaky": lambda x: tf.nn.leaky_relu(x, 0.1),
    "swish": tf.nn.silu,
    "gelu": tf.nn.gelu,
    "clip": lambda x: raw.ClipByValue(t=x, clip_value_min=-0.5, clip_value_max=1.5),
    "softmax": tf.nn.softmax,
    "log softmax": tf.nn.log_softmax,
    "prelu": lambda x: tf.nn.relu(x) + -weights(4) * tf.nn.relu(-x),
    "l2 normalize": lambda x: tf.nn.l2_normalize(x, -1),
    "add": lambda x: raw.Add(x=x, y=x), "add n": lambda x: tf.add_n([x, x, x]),
    "sub": lambda x: x - weights(4), "mul": lambda x: x * x,
    "real div": lambda x: x / (2 + np.abs(weights(4))),
    "div": lambda x: raw.Div(x=x, y=weights(4)),
    "div no nan": lambda x: tf.math.divide_no_nan(x, weights(4)),
    "truncate div": lambda x: raw.TruncateDiv(x=tf.cast(4 * x, tf.int32), y=tf.constant(3)),
    "maximum": lambda x: tf.maximum(x, 0.3), "minimum": lambda x: tf.minimum(x, weights(4)),
    "pow": lambda x: tf.pow(x, 2.0), "squared difference": lambda x: raw.SquaredDifference(
        x=x, y=weights(4)),
    "floor div": lambda x: x // weights(4), "floor mod": lambda x: x % 0.7,
    "integers": lambda x: tf.cast(x * 9, tf.int32) // 4 + tf.cast(x * 9, tf.int32) % 4,
    "comparisons": lambda x: tf.where(
        ((x > 0.1) & (x <= 1)) | ~(x >= -0.5) | (x < -2) | tf.equal(x, 0) | tf.not_equal(x, x),
        x, 2.0,
    ),
    "select": lambda x: raw.Select(condition=x[:, 0, 0, 0] > 0, x=x, y=-x),
    "einsum": lambda x: raw.Einsum(inputs=[x, x], equation="bhwc,bhwd->bcd"),
    "mean": lambda x: tf.reduce_mean(x, [1, 2]),
    "mean kept": lambda x: tf.reduce_mean(x, [1, 2], keepdims=True),
    "sum": lambda x: tf.reduce_sum(x, [1, 3]), "max": lambda x: tf.reduce_max(x, [1, 2]),
    "min": lambda x: tf.reduce_min(x, 3), "prod": lambda x: tf.reduce_prod(x, [2]),
    "arg max": lambda x: tf.argmax(x, -1), "arg min": lambda x: tf.argmin(x, 1, tf.int32),
    "top": lambda x: tf.math.top_k(x, 2), "cumsum": lambda x: tf.cumsum(x, 2, reverse=True),
    "reshape": lambda x: tf.reshape(x, [tf.shape(x)[0], -1, tf.shape(x)[3]]),
    "squeeze": lambda x: tf.squeeze(x, [0]), "expand dims": lambda x: tf.expand_dims(x, 2),
    "transpose": lambda x: tf.transpose(x, [0, 3, 1, 2]),
    "concat": lambda x: tf.concat([x, 2 * x], -1),
    "concat v1": lambda x: raw.Concat(concat_dim=1, values=[x, 2 * x]),
    "pack": lambda x: tf.stack([x, 2 * x], 1), "unpack": lambda x: tf.unstack(x, axis=2),
    "split": lambda x: tf.split(x, 2, 3), "split v": lambda x: tf.split(x, [1, -1, 2], 2),
    "slice": lambda x: tf.slice(x, [0, 1, 2, 0], [-1, 3, -1, 2]),
    "strided slice": lambda x: x[:, 1:6:2, ::-1, None, ..., 2],
    "pad": lambda x: tf.pad(x, PADS), "pad v2": lambda x: tf.pad(x, PADS, constant_values=-2),
    "mirror pad": lambda x: tf.pad(x, PADS, "REFLECT"),
    "tile": lambda x: tf.tile(x, [1, 2, 1, 3]),
    "broadcast": lambda x: x + tf.broadcast_to(x[:, :1], [1, 7, 6, 4]),
    "fill": lambda x: x + tf.fill([7, 6, 4], 2.0),
    "gather": lambda x: tf.gather(x, [3, 1], axis=2), "gather v1": lambda x: raw.Gather(
        params=x, indices=[0]),
    "gather nd": lambda x: tf.gather_nd(x, [[0, 3, 1], [0, 0, 5]]),
    "reverse": lambda x: tf.reverse(x, [1]),
    "one hot": lambda x: tf.one_hot(tf.argmax(x, -1), 4, 2.0, -1.0),
    "shapes": lambda x: tf.reshape(x, raw.ShapeN(input=[x, x])[1]) * tf.cast(
        raw.Size(input=x) + raw.Rank(input=x) + raw.Shape(input=x)[1], tf.float32),
    "range": lambda x: x + tf.range(tf.cast(tf.shape(x)[3], tf.float32)),
    "identities": lambda x: tf.identity_n([tf.stop_gradient(x), tf.debugging.check_numerics(
        tf.ensure_shape(tf.identity(raw.Snapshot(input=raw.PreventGradient(input=x))), X), "no")]),
    "with default": lambda x: x + tf.compat.v1.placeholder_with_default(weights(4), [4]),
    "fixed": lambda x: tf.quantization.fake_quant_with_min_max_args(x, -128 / 32, 127 / 32),
    "fixed by constants": lambda x: tf.quantization.fake_quant_with_min_max_vars(
        x, -128 / 64, 127 / 64),
}  # fmt: skip
CASES["add v2"] = lambda x: x + x


def deep(x):
    """Return a volume of 4x5x6 with two channels."""
    return tf.reshape(tf.tile(x, [1, 2, 1, 1])[:, :10], [1, 4, 5, 6, 2])


DHWIO = weights(3, 2, 3, 2, 5)
CASES |= {
    "conv 3d": lambda x: tf.nn.conv3d(deep(x), DHWIO, [1, 2, 1, 2, 1], "SAME"),
    "conv 3d valid": lambda x: tf.nn.conv3d(deep(x), DHWIO, [1, 1, 1, 1, 1], "VALID"),
    "conv 3d transposed": lambda x: tf.nn.conv3d_transpose(
        deep(x), weights(3, 2, 3, 5, 2), [1, 8, 9, 12, 5], [1, 2, 2, 2, 1]
    ),
    "max pool 3d": lambda x: tf.nn.max_pool3d(deep(x), [2, 3, 2], 2, "SAME"),
    "average pool 3d": lambda x: tf.nn.avg_pool3d(deep(x), 3, [2, 1, 2], "SAME"),
}


@pytest.mark.parametrize("case", CASES)
def test_computes_what_tensorflow_computes(case, rng):
    agree(CASES[case], [rng.standard_normal(X).astype(np.float32)])


def test_every_handler_is_compared():
    tested = set()
    for function in CASES.values():
        nodes, _, _ = frozen_graph(function, [X])
        tested |= {node.op for node in nodes.values()}
    assert set(HANDLERS) - {"FixNeuron"} <= tested  # of AMD's, see test_frozen.py


def test_a_depthwise_convolution_with_dilation_is_one_op():
    graph = load_function(CASES["depthwise dilated"], [X])
    assert [node.kind for node in graph if node.kind != "const"] == ["data", "depthwise-conv2d"]


def test_all_unknown_operators_are_named():
    def odd(x):
        y = tf.signal.rfft(x[0, 0])
        return tf.cast(tf.abs(y), tf.float32) + tf.linalg.inv(x[0, :4, :4, 0])[0, 0]

    with pytest.raises(UnsupportedError) as caught:
        load_function(odd, [(1, 7, 6, 4)])
    assert str(caught.value).startswith("function has 2 operators that cannot be converted:\n")
    assert "RFFT (no counterpart): " in str(caught.value)
    assert "MatrixInverse (no counterpart): " in str(caught.value)


def test_control_flow_that_depends_on_data_is_named():
    def odd(x):
        return tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: -x)

    with pytest.raises(UnsupportedError, match=r"Switch \(its condition depends on the data\)"):
        load_function(odd, [X])


def test_quantization_that_no_dpu_has_is_refused():
    def odd(x):
        return tf.quantization.fake_quant_with_min_max_args(x, -1.0, 1.0)

    with pytest.raises(UnsupportedError, match=r"rounds -1\.\.1 to 8 bits, but the DPU needs 8"):
        load_function(odd, [X])
