# SPDX-License-Identifier: Apache-2.0
"""Limits of pools, sums, products and activations, and of what every op reads."""

from limits.case import Drawing, limit


@limit("batch", "batch to be 1, but it's 2 now", beside=("x_reshaped",))
def two_samples(q: Drawing) -> str:
    x = q.data(4, 6, 4)
    q.graph.add("two", "reshape", (q.either(1), 4, 3, q.either(8, 4)), {"input": [x]},
                {"shape": [q.either(1), 4, 3, q.either(8, 4)]})  # fmt: skip
    two = q.fix("two", 5)
    attrs = {"kernel": [2, 2], "stride": [1, 1], "pad": [0] * 4, "pad_mode": "FLOOR"}
    q.graph.add("op", "maxpool2d", (q.either(1), 3, 2, q.either(8, 4)), {"input": [two]}, attrs)
    return q.fix("op", 5)


@limit("feature_inputs", 'feature maps as inputs, but "c" is a constant')
def constant_map(q: Drawing) -> str:
    x = q.data(3, 5, 3)
    other = q.const("c", 1, 4, 6, 3, point=5) if q.beyond else q.data(4, 6, 3, name="y")
    q.op("sum", "add", (3, 5, 3), [x, q.pool(other, "op", "maxpool2d", 2)])
    return q.fix("sum", 5)


@limit("channels", '"input_channel"(2049) up to 2048', target="B512")
def channels_of_a_sum(q: Drawing) -> str:
    x = q.data(2, 2, q.either(2048))
    q.op("op", "add", q.graph[x].shape[1:], [x, x])
    return q.fix("op", 4)


@limit("channels", '"input_channel"(1025) up to 1024')
def channels_of_a_pool(q: Drawing) -> str:
    return q.pooled("avgpool2d", q.data(3, 3, q.either(1024)), (2, 2))


@limit("channels", '"input_channel"(1025) up to 1024')
def channels_of_a_hard_sigmoid(q: Drawing) -> str:
    return q.alone("hard-sigmoid", q.data(3, 1, q.either(1024)), 7)


@limit("padding", '"pad_right"(2) less than "kernel_width"(2)')
def padding_of_a_pool(q: Drawing) -> str:
    return q.pooled("avgpool2d", q.data(5, 4, 3), (2, 2), pad=(0, q.either(1), 0, 0))


@limit("pool_window", '"kernel_width"(257) in 1..256')
def wide_pool(q: Drawing) -> str:
    return q.pooled("avgpool2d", q.data(2, 300, 5), (q.either(256), 1))


@limit("pool_window", '"kernel_height"(257) in 1..256')
def tall_pool(q: Drawing) -> str:
    return q.pooled("avgpool2d", q.data(258, 2, 5), (1, q.either(256)))


@limit("pool_window", '"stride_height"(257) in 1..256')
def steps_of_a_pool(q: Drawing) -> str:
    return q.pooled("avgpool2d", q.data(520, 2, 3), (1, 2), (1, q.either(256)))


@limit("pool_shifts", "but here it is -8")
def pool_of_more_bits(q: Drawing) -> str:
    return q.pooled("maxpool2d", q.data(4, 4, 5, point=1), (2, 2), point=q.either(8))


@limit("pool_shifts", "but here it is 56")
def average_of_fewer_bits(q: Drawing) -> str:
    return q.pooled("avgpool2d", q.data(9, 9, 5, point=1), (3, 3), point=q.either(-48, -49))


@limit("pool_shifts", "but here it is 56")
def average_of_many_pixels(q: Drawing) -> str:
    return q.pooled("avgpool2d", q.data(63, 63, 2, point=1), (63, 63), point=q.either(-37, -38))


@limit("pool_shifts", "but here it is 56")
def maximum_of_fewer_bits(q: Drawing) -> str:
    return q.pooled("maxpool2d", q.data(9, 9, 5, point=1), (3, 3), point=q.either(-54, -55))


@limit("elew_inputs", '"input_num"(5) up to 4')
def five_terms(q: Drawing) -> str:
    x = q.data(4, 4, 3)
    q.op("op", "add", (4, 4, 3), [x] * q.either(4))
    return q.fix("op", 3)


@limit("elew_inputs", '"input_num"(3) up to 2', exact=True)
def three_factors(q: Drawing) -> str:
    x = q.data(4, 4, 3)
    q.op("op", "mul", (4, 4, 3), [x] * q.either(2))
    return q.fix("op", q.either(3, -6))


@limit("elew_shifts", "but they are [4, 20] and 4", exact=True)
def terms_far_apart(q: Drawing) -> str:
    x, y = q.data(4, 4, 3, point=4), q.data(4, 4, 3, name="y", point=q.either(19))
    q.op("op", "add", (4, 4, 3), [x, y])
    return q.fix("op", 4)


@limit("elew_shifts", "but they are [4, 5] and 20", exact=True)
def sum_of_more_bits(q: Drawing) -> str:
    x, y = q.data(4, 4, 3, point=4), q.data(4, 4, 3, name="y", point=5)
    q.op("op", "add", (4, 4, 3), [x, y])
    return q.fix("op", q.either(19))


@limit("product_shift", '"shift_write"(16) in -15..15', exact=True)
def product_of_fewer_bits(q: Drawing) -> str:
    x, y = q.data(4, 4, 3, point=4), q.data(4, 4, 3, name="y", point=5)
    q.op("op", "mul", (4, 4, 3), [x, y])
    return q.fix("op", q.either(-6, -7))


@limit("product_shift", '"shift_write"(-16) in -15..15', exact=True)
def product_of_more_bits(q: Drawing) -> str:
    x, y = q.data(4, 4, 3, point=-4), q.data(4, 4, 3, name="y", point=-5)
    q.op("op", "mul", (4, 4, 3), [x, y])
    return q.fix("op", q.either(6))


@limit("prelu_shifts", '"shift_prelu_p"(32) in -31..31')
def leaky_relu_of_fewer_bits(q: Drawing) -> str:
    return q.alone("leaky-relu", q.data(4, 4, 3), q.either(-26, -27), alpha=1.0)


@limit("prelu_shifts", '"shift_prelu_n"(32) in -31..31')
def slopes_of_many_bits(q: Drawing) -> str:
    x = q.data(4, 4, 3, point=5)
    given = {"input": [x], "weight": [q.const("slope", 3, point=q.either(24))]}
    q.graph.add("op", "prelu", (1, 4, 4, 3), given)
    return q.fix("op", -2)


@limit("sigmoid_shifts", '"shift_bias"(-1) in 0..19', exact=True)
def hard_sigmoid_of_even_numbers(q: Drawing) -> str:
    return q.alone("hard-sigmoid", q.data(4, 4, 3, point=q.either(0, -1)), 7)


@limit("sigmoid_shifts", '"shift_bias"(20) in 0..19')
def hard_sigmoid_of_tiny_numbers(q: Drawing) -> str:
    return q.alone("hard-sigmoid", q.data(4, 4, 3, point=q.either(19)), 7)


@limit("sigmoid_shifts", '"shift_cut"(-1) in 0..63', exact=True)
def hard_sigmoid_of_too_many_bits(q: Drawing) -> str:
    return q.alone("hard-sigmoid", q.data(4, 4, 3, point=2), q.either(16))


@limit("sigmoid_bound", '"fix_point"(6) of at least 7, or of at least 6 before it, where it is 5')
def hard_sigmoid_up_to_one(q: Drawing) -> str:
    return q.alone("hard-sigmoid", q.data(4, 4, 3, point=5), q.either(7, 6))


@limit("sigmoid_bound", '"fix_point"(6) of at least 7, or of at least 6 before it, where it is 5')
def hard_sigmoid_of_up_to_two(q: Drawing) -> str:
    return q.alone("hard-sigmoid", q.data(4, 4, 3, point=q.either(6, 5)), 6)


@limit("pool_fits", "9x64 pixels need 320", bank_depth=256)
def pool_over_many_words(q: Drawing) -> str:
    rows = q.either(4 * 2)
    return q.pooled("avgpool2d", q.data(rows, 64, 3), (64, rows))
