# SPDX-License-Identifier: Apache-2.0
"""Limits of the ops with weights; the targets have four channels a word unless said otherwise."""

from limits.case import Drawing, balanced, limit

DENSE, DEEP = "conv2d", "depthwise-conv2d"
UP, DEEP_UP = "transposed-conv2d", "transposed-depthwise-conv2d"


@limit("channels", '"input_channel"(1025) up to 1024')
def inputs_of_a_convolution(q: Drawing) -> str:
    channels = q.either(1024)
    return q.layer(DENSE, q.data(3, 2, channels), 3, (1, 1), point=balanced(channels, 5, 8))


@limit("channels", '"output_channel"(1025) up to 1024')
def outputs_of_a_transposed_convolution(q: Drawing) -> str:
    return q.layer(UP, q.data(3, 2, 3), q.either(1024), (1, 1))


@limit("conv_kernel", '"kernel_width"(17) in 1..16')
def wide_kernel(q: Drawing) -> str:
    return q.layer(DENSE, q.data(3, 20, 3), 5, (q.either(16), 1))


@limit("conv_kernel", '"kernel_height"(17) in 1..16')
def tall_kernel(q: Drawing) -> str:
    return q.layer(DENSE, q.data(19, 4, 3), 5, (2, q.either(16)), pad=(0, 1, 7, 0))


@limit("depthwise_kernel", '"kernel_width"(257) in 1..256')
def wide_depthwise_kernel(q: Drawing) -> str:
    return q.layer(DEEP, q.data(2, 260, 5), 5, (q.either(256), 1), point=2)


@limit("depthwise_kernel", '"kernel_height"(257) in 1..256')
def tall_depthwise_kernel(q: Drawing) -> str:
    return q.layer(DEEP, q.data(258, 2, 5), 5, (1, q.either(256)), point=2)


@limit("conv_stride", '"stride_width"(9) in 1..8')
def long_steps(q: Drawing) -> str:
    return q.layer(DENSE, q.data(5, 30, 3), 5, (3, 3), (q.either(8), 1))


@limit("conv_stride", '"stride_height"(9) in 1..8')
def high_steps(q: Drawing) -> str:
    return q.layer(DENSE, q.data(30, 5, 3), 5, (3, 3), (1, q.either(8)))


@limit("depthwise_stride", '"stride_width"(257) in 1..256')
def long_depthwise_steps(q: Drawing) -> str:
    return q.layer(DEEP, q.data(2, 600, 3), 3, (2, 2), (q.either(256), 1), point=5)


@limit("depthwise_stride", '"stride_height"(257) in 1..256')
def high_depthwise_steps(q: Drawing) -> str:
    return q.layer(DEEP, q.data(600, 2, 3), 3, (2, 2), (1, q.either(256)), point=5)


@limit("padding", '"pad_left"(3) less than "kernel_width"(3)')
def padding_of_a_whole_kernel(q: Drawing) -> str:
    return q.layer(DENSE, q.data(5, 5, 3), 4, (3, 3), pad=(q.either(2), 2, 2, 2))


@limit("padding", '"pad_bottom"(3) less than "kernel_height"(3)')
def padding_below_of_a_whole_kernel(q: Drawing) -> str:
    return q.layer(DEEP, q.data(5, 5, 3), 3, (3, 3), pad=(2, 2, 2, q.either(2)))


@limit("padding", '"pad_top"(16) in 0..15')
def padding_above(q: Drawing) -> str:
    return q.layer(DEEP, q.data(9, 5, 3), 3, (1, 20), pad=(0, 0, q.either(15), 8))


@limit("padding", '"pad_left"(16) in 0..15')
def padding_at_the_left(q: Drawing) -> str:
    return q.layer(DEEP, q.data(3, 9, 6), 6, (20, 2), pad=(q.either(15), 19, 1, 1))


@limit("weights_fit", "a kernel of 4x4 with 17 channel groups needs 272", bank_depth=256)
def deep_kernel(q: Drawing) -> str:
    channels = q.either(64)
    return q.layer(DENSE, q.data(5, 4, channels), 6, (4, 4), point=balanced(1024, 5, 8))


@limit("weights_fit", "a kernel of 2x130 with 1 channel groups needs 260", bank_depth=256)
def large_depthwise_kernel(q: Drawing) -> str:
    return q.layer(DEEP, q.data(3, 140, 4), 4, (q.either(128, 130), 2), point=2)


@limit("weights_fit", "a kernel of 4x4 with 17 channel groups needs 272", bank_depth=256)
def deep_transposed_kernel(q: Drawing) -> str:
    channels = q.either(64)
    return q.layer(UP, q.data(3, 4, channels), 5, (8, 7), (2, 2), point=balanced(1024, 5, 8))


@limit("nonlinear", '"nonlinear"(LEAKYRELU) of depthwise-conv2d-fix')
def leaky_relu_of_a_depthwise_convolution(q: Drawing) -> str:
    act = "leaky-relu" if q.beyond else "relu"
    return q.layer(DEEP, q.data(5, 5, 6), 6, (3, 3), point=4, act=act)


@limit("nonlinear", '"nonlinear"(LEAKYRELU) of conv2d-fix', conv_leaky_relu=False)
def leaky_relu_of_a_convolution(q: Drawing) -> str:
    act = "leaky-relu" if q.beyond else "relu6"
    return q.layer(DENSE, q.data(5, 5, 6), 6, (3, 3), point=4, act=act)


@limit("layer_shifts", '"shift_cut"(-1) in 0..63', exact=True)
def finer_than_the_products(q: Drawing) -> str:
    return q.layer(DENSE, q.data(5, 5, 2, point=2), 3, (1, 1), weights=1, bias=3, point=q.either(3))


@limit("layer_shifts", '"shift_cut"(64) in 0..63', exact=True)
def coarser_than_any_product(q: Drawing) -> str:
    return q.layer(DENSE, q.data(5, 5, 2, point=8), 3, (3, 3), bias=17, point=q.either(-47, -48))


@limit("layer_shifts", '"shift_bias"(-1) in 0..20', exact=True)
def bias_finer_than_the_products(q: Drawing) -> str:
    return q.layer(DEEP, q.data(5, 5, 2), 2, (3, 3), bias=q.either(14), point=5)


@limit("layer_shifts", '"shift_bias"(21) in 0..20', exact=True)
def bias_far_above_the_products(q: Drawing) -> str:
    return q.layer(DENSE, q.data(5, 5, 2), 2, (3, 3), bias=q.either(-6, -7), point=-6)


@limit("channel_shifts", "up to 15 apart, but they are 16", target="B64+channel")
def channels_far_apart(q: Drawing) -> str:
    return q.layer(DENSE, q.data(5, 5, 2), 3, (3, 3), weights=[8, q.either(23), 11], bias=None)


@limit("channel_shifts", '"shift_bias" of channels up to 15 apart', target="B64+channel")
def biases_far_apart(q: Drawing) -> str:
    return q.layer(DEEP, q.data(5, 5, 2), 2, (3, 3), weights=12, bias=[q.either(17, 18), 2])


@limit("channel_shifts", "it lacks the extension 'channel'")
def channels_without_the_extension(q: Drawing) -> str:
    return q.layer(UP, q.data(5, 5, 2), 2, (2, 2), weights=[8, q.either(8)], point=4)


@limit("transposed_kernel", '"kernel_width"(33) / "stride_width"(2) in 1..16')
def wide_transposed_kernel(q: Drawing) -> str:
    return q.layer(UP, q.data(3, 4, 3), 5, (q.either(32), 2), (2, 2), pad=(2, 3, 0, 0))


@limit("transposed_kernel", '"kernel_height"(17) / "stride_height"(1) in 1..16')
def tall_transposed_kernel(q: Drawing) -> str:
    return q.layer(UP, q.data(4, 4, 3), 5, (2, q.either(16)), pad=(0, 0, 1, 0))


@limit("transposed_padding", '"pad_top"(3) less than "kernel_height"(3)')
def cut_off_by_a_whole_kernel(q: Drawing) -> str:
    return q.layer(UP, q.data(4, 4, 3), 5, (3, 3), (2, 2), pad=(1, 1, q.either(2), 1))


@limit("transposed_padding", '"pad_top"(7) of at least 8 with a kernel of 40 and stride 2')
def reach_of_a_transposed_kernel(q: Drawing) -> str:
    pad = (0, 0, q.either(8, 7), 3)
    return q.layer(DEEP_UP, q.data(4, 4, 3), 3, (2, 40), (2, 2), pad=pad, point=4)


@limit("transposed_form", '"dilation_width"(2) of transposed-conv2d-fix to be 1')
def transposed_kernel_with_gaps(q: Drawing) -> str:
    return q.layer(UP, q.data(4, 4, 3), 5, (3, 3), (2, 2), dilation=[q.either(1), 1])


@limit("transposed_form", '"group"(2) of transposed-conv2d-fix to be 1')
def transposed_groups(q: Drawing) -> str:
    return q.layer(UP, q.data(4, 4, 6), 4, (3, 3), (2, 2), group=q.either(1))


@limit("transposed_step", '"stride_width" * "output_channel"(69632) up to 65536', target="B4096")
def far_apart(q: Drawing) -> str:
    return q.layer(DEEP_UP, q.data(1, 2, 4096), 4096, (1, 1), (q.either(16), 1), point=6)


@limit("multiplier", '"channel_multiplier"(2) to be 1', runs=False)
def two_results_a_channel(q: Drawing) -> str:
    """XIR does not say in which order the results are."""
    return q.layer(DEEP, q.data(4, 4, 5), 5 * q.either(1), (3, 3), point=5)


@limit("constant_weights", 'constant "weights", but "w2" is computed')
def computed_weights(q: Drawing) -> str:
    x = q.data(4, 4, 3)
    if not q.beyond:
        return q.layer(DENSE, x, 1, (3, 3))
    weights = q.data(3, 3, 3, name="w2", point=7)
    attrs = {"kernel": [3, 3], "stride": [1, 1], "pad": [0] * 4, "pad_mode": "FLOOR"}
    q.graph.add("op", DENSE, (1, 2, 2, 1), {"input": [x], "weights": [weights]}, attrs)
    return q.fix("op", 3)
