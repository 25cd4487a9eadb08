# SPDX-License-Identifier: Apache-2.0
"""What legalization refuses, beside what it just does not."""

from limits.case import Drawing, limit

DENSE = "conv2d"


@limit("relu6", 'relu6 with a result of "fix_point"(3) at least 4', beside=("op_relu6",))
def six_that_is_no_bound(q: Drawing) -> str:
    return q.layer(DENSE, q.data(4, 4, 3), 5, (1, 1), point=q.either(4, 3), act="relu6")


@limit("leaky-relu of a layer", '"alpha"(0.25) 0.101562 (26/256)', beside=("op_leaky-relu",))
def slope_of_a_layer(q: Drawing) -> str:
    alpha = 0.25 if q.beyond else 26 / 256
    return q.layer(DENSE, q.data(4, 4, 3), 5, (1, 1), act="leaky-relu", alpha=alpha)


@limit("leaky-relu", '"alpha"(0.503906) of leaky-relu that is int8 / 2**n')
def slope_of_nine_bits(q: Drawing) -> str:
    return q.alone("leaky-relu", q.data(4, 4, 3), 5, alpha=129 / 256 if q.beyond else 127 / 256)


@limit("prelu", 'one constant slope a channel, but "weight" is of shape [5, 3]')
def slope_of_each_column(q: Drawing) -> str:
    x = q.data(4, 5, 3)
    slope = q.const("slope", 5, 3) if q.beyond else q.const("slope", 3)
    q.graph.add("op", "prelu", (1, 4, 5, 3), {"input": [x], "weight": [slope]})
    return q.fix("op", 5)


@limit("hard-swish", "DPU only supports hard-swish as hard-sigmoid and mul")
def hard_swish_in_one(q: Drawing) -> str:
    kind = "hard-swish" if q.beyond else "hard-sigmoid"
    return q.alone(kind, q.data(4, 4, 3), 7)


@limit("avgpool2d", "DPU only supports averages that count the padding")
def average_without_much_padding(q: Drawing) -> str:
    size, before = (7, 3) if q.beyond else (5, 2)
    return q.pooled("avgpool2d", q.data(12, 12, 3), (size, size), pad=(before,) * 4,
                    count_include_pad=False)  # fmt: skip


@limit("add of a constant", '"c" has shape [1, 1, 5, 3]')
def one_constant_a_column(q: Drawing) -> str:
    x = q.data(4, 5, 3)
    constant = q.const("c", *((1, 1, 5, 3) if q.beyond else (3,)), point=5)
    q.op("op", "add", (4, 5, 3), [x, constant])
    return q.fix("op", 4)


@limit("add of a constant", '"fix_point"(2) of the constant "c" at most 2 below')
def coarse_constant(q: Drawing) -> str:
    x = q.data(4, 5, 3, point=5)
    q.op("op", "add", (4, 5, 3), [x, q.const("c", 3, point=q.either(3, 2))])
    return q.fix("op", 2)


@limit("add of shapes", "maps with the same channels, and as many rows and columns or one")
def broadcast(q: Drawing) -> str:
    x = q.data(4, 5, 3)
    y = q.data(4, 5, 1, name="y") if q.beyond else q.data(4, 1, 3, name="y")
    q.op("op", "mul", (4, 5, 3), [x, y])
    return q.fix("op", 3)


@limit("relu6 alone", '"fix_point" at most 6 above')
def many_bits_more(q: Drawing) -> str:
    return q.alone("relu6", q.data(4, 4, 3, point=0), q.either(6))


@limit("inner-product", "inner-product over the last axis")
def product_over_two_axes(q: Drawing) -> str:
    x = q.reshape(q.data(4, 5, 3), "flat", 12, 5)
    inputs = 60 if q.beyond else 5
    axis, size = (1, (1, 4)) if q.beyond else (2, (1, 12, 4))
    given = {"input": [x], "weights": [q.const("w", 4, inputs, point=8)]}
    q.graph.add("op", "inner-product", size, given, {"axis": axis})
    return q.fix("op", 3)


@limit("matmul", "matmul of two feature maps without bias")
def computed_matrix(q: Drawing) -> str:
    x, y = q.data(4, 5, 3), q.data(4, 3, 5, name="y")
    given = {"input": [x, y], **({"bias": [q.const("b", 5)]} if q.beyond else {})}
    q.graph.add("op", "matmul", (1, 4, 5, 5), given, {"transpose_a": False, "transpose_b": False})
    return q.fix("op", 3)


@limit("matmul_shift", '"shift_cut"(-1) in 0..63')
def fine_product(q: Drawing) -> str:
    x, y = q.data(1, 5, 3), q.data(1, 5, 3, name="y")
    q.op("op", "matmul", (1, 5, 5), [x, y], transpose_a=False, transpose_b=True)
    return q.fix("op", q.either(10))


@limit("quantized inputs", 'conv2d of quantized inputs, but "s" is float', beside=("s",))
def float_input(q: Drawing) -> str:
    x = q.data(4, 4, 3)
    if q.beyond:
        x = q.op("s", "neg", (4, 4, 3), [x])
    return q.layer(DENSE, x, 5, (1, 1))


@limit("transpose", "takes at most 262144 cycles, but here it takes 262576")
def channels_to_the_front(q: Drawing) -> str:
    height, width, channels = (2, 16411, 2) if q.beyond else (8, 16, 8)
    x = q.data(height, width, channels)
    moved = q.alone("transpose", x, 5, (channels, width, height), order=[0, 3, 2, 1])
    return q.pool(moved, "pool", "maxpool2d", 2)


@limit("reduction_mean", '"axis"([3]) of reduction_mean of 4 dimensions that are rows and columns')
def mean_of_channels(q: Drawing) -> str:
    axis, shape = (3, (4, 5, 1)) if q.beyond else (2, (4, 1, 3))
    x = q.data(4, 5, 3)
    y = q.alone("reduction_mean", x, 5, shape, axis=[axis], keep_dims=True)
    return q.pool(y, "pool", "maxpool2d", 1)


@limit("argmax", '"axis"(2) of argmax that is the last of 2..4 dimensions')
def argmax_of_columns(q: Drawing) -> str:
    x = q.pool(q.data(4, 5, 3), "pool", "maxpool2d", 1)
    axis, shape = (2, (1, 4, 3)) if q.beyond else (3, (1, 4, 5))
    return q.graph.add("op", "argmax", shape, {"input": [x]}, {"axis": axis}).name


@limit("strided_slice", '"strides"([1, 1, -1, 1]) that are positive')
def columns_backwards(q: Drawing) -> str:
    x = q.data(4, 6, 3)
    limits = ([0, 0, 5, 0], [1, 4, 1, 3], [1, 1, -1, 1])
    if not q.beyond:
        limits = ([0, 0, 1, 0], [1, 4, 5, 3], [1, 1, 1, 1])
    begin, end, strides = limits
    y = q.alone("strided_slice", x, 5, (4, 4, 3), begin=begin, end=end, strides=strides)
    return q.pool(y, "pool", "maxpool2d", 2)


@limit("resize", '"align_corners"(True)')
def corners_on_corners(q: Drawing) -> str:
    y = q.alone("resize", q.data(4, 4, 3), 5, (8, 8, 3), scale=[2.0, 2.0], mode="BILINEAR",
                half_pixel_centers=False, align_corners=q.beyond)  # fmt: skip
    return q.pool(y, "pool", "maxpool2d", 2)


@limit("resize", "BILINEAR that are powers of two, together at most 64")
def bilinear_of_three(q: Drawing) -> str:
    times = q.either(2)
    y = q.alone("resize", q.data(4, 4, 3), 5, (4 * times, 4, 3), scale=[1.0, float(times)],
                mode="BILINEAR", half_pixel_centers=False, align_corners=False)  # fmt: skip
    return q.pool(y, "pool", "maxpool2d", 2)


@limit("resize", 'DPU only supports "scale"([1.5, 2.0]) of whole numbers')
def one_and_a_half(q: Drawing) -> str:
    wide = 1.5 if q.beyond else 2.0
    y = q.alone("resize", q.data(4, 4, 3), 5, (8, int(4 * wide), 3), scale=[wide, 2.0],
                mode="NEAREST", half_pixel_centers=False, align_corners=False)  # fmt: skip
    return q.pool(y, "pool", "maxpool2d", 2)
