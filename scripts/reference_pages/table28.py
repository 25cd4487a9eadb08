# SPDX-License-Identifier: Apache-2.0
"""The rows of the guide's table of supported operators, and what becomes of each here."""

import dataclasses

from opendpu.compiler.constraints import CONSTRAINTS
from opendpu.compiler.legalize import RULES
from opendpu.compiler.legalize.registry import FINAL_RULES
from opendpu.ops import operator_of


@dataclasses.dataclass(frozen=True)
class Row:
    """One row: its name in the guide, XIR ops of float graphs, and fixed-point ops."""

    name: str
    floats: tuple[str, ...]
    fixed: tuple[str, ...]
    text: str


THREE_D = {
    "conv3d": "conv3d",
    "depthwise-conv3d": "depthwise-conv3d",
    "transposed-conv3d": "transposed-conv3d",
    "depthwise-transposed-conv3d": "transposed-depthwise-conv3d",
}

ROWS = (
    Row(
        "conv2d", ("conv2d",), ("conv2d-fix",),
        "CONV; LOAD gathers the rows that dilated kernels meet; "
        "groups as slices of the channels, several a layer with zeros between where it is cheaper",
    ),
    Row("depthwise-conv2d", ("depthwise-conv2d",), ("depthwise-conv2d-fix",), "ALU DWCV"),
    Row(
        "transposed-conv2d", ("transposed-conv2d",), ("transposed-conv2d-fix",),
        "a CONV for each phase, stride_w * stride_h of them, which write every stride-th pixel; "
        "strides larger than the kernel too",
    ),
    Row(
        "depthwise-transposed-conv2d", ("transposed-depthwise-conv2d",),
        ("transposed-depthwise-conv2d-fix",), "the same with ALU DWCV",
    ),
    Row(
        "max-pooling", ("maxpool2d",), ("pool-fix",),
        "ALU MAXPOOL; larger windows than an instruction can have as maxima of maxima",
    ),
    Row("average-pooling", ("avgpool2d",), ("pool-fix",), "ALU AVEPOOL, by a factor and a shift"),
    Row(
        "global pooling", ("maxpool2d", "avgpool2d"), ("pool-fix",),
        "pooling with a kernel as large as the feature map",
    ),
    Row(
        "eltwise sum", ("add",), ("eltwise-fix",),
        "ELEW ADD of two to four feature maps; single rows and columns are repeated by LOAD; "
        "one constant a channel as a depthwise convolution "
        "of one pixel, or in the bias of the layer before. The quantizer splits longer sums",
    ),
    Row(
        "eltwise prod", ("mul",), ("eltwise-fix",),
        "ELEW MULT of two feature maps; single rows and columns are repeated by LOAD; one "
        "constant a channel as a depthwise convolution of one "
        "pixel",
    ),
    Row(
        "concat", ("concat",), ("concat-fix",),
        "the producers write their part of the result, along any axis; what has a place already is "
        "copied by LOAD and SAVE",
    ),
    Row("reorg", ("reorg",), ("reorg-fix",), "LOAD and SAVE"),
    Row(
        "pixel shuffle", ("pixel-shuffle",), ("tile-fix",),
        "LOAD and SAVE; the order of channels goes into the convolution before, or is one of one "
        "pixel",
    ),
    Row(
        "depth to space, space to depth", ("gstiling",), ("tile-fix",),
        "depth to space by the SAVEs of the convolution before, where its blocks of output "
        "channels stay full; else LOAD and SAVE",
    ),
    Row(
        "pad", ("pad",), ("pad-fix",),
        "the padding of the convolution or pooling behind it, or LOAD and SAVE: constant, "
        "symmetric, reflected",
    ),
    Row(
        "InnerProduct, Fully Connected, Matmul", ("inner-product", "matmul"),
        ("conv2d-fix", "matmul-fix"),
        "CONV of one pixel, or with a kernel as large as the feature map; rows are pixels. Of two "
        "feature maps: the second is loaded as weights. A constant matrix times a map, of few "
        "neighbours a result: ALU DWCV for each row or column",
    ),
    Row(
        "resize", ("resize",), ("upsample-fix",),
        "LOAD and SAVE (nearest: whole multiples, or slices where it leaves pixels out); ALU DWCV "
        "for each phase (bilinear: powers of two, together up to 64, with half pixel centers 16; "
        "else products with constant matrices, which the quantizer makes)",
    ),
    Row("batch norm", ("batchnorm",), (), "folded by the quantizer; alone a depthwise convolution"),
    Row("mean", ("reduction_mean",), ("pool-fix",), "average pooling over rows and columns"),
    Row(
        "strided_slice", ("strided_slice",), ("strided_slice-fix",),
        "LOAD with jumps, which may be those of the op behind it; other than neighbouring channels "
        "by a CONV of one pixel",
    ),
    Row(
        "argmax", ("argmax",), ("argmax-fix",),
        "SAVE with its comparators, over channels; the result is int32",
    ),
    Row(
        "reduction max", ("reduction_max",), ("reduction_max-fix", "pool-fix"),
        "SAVE with its comparators over channels, ALU MAXPOOL over rows and columns",
    ),
    Row(
        "transpose", ("transpose",), ("transpose",),
        "folded by the front end; rows and columns are exchanged by the jumps of LOAD; axes that "
        "are parts of at most 1024 channels, or a feature map that small, by a CONV of one pixel",
    ),
    Row("ReLU", ("relu",), ("eltwise-fix",), "with the op before it; alone ELEW of one input"),
    Row(
        "ReLU6", ("relu6",), ("depthwise-conv2d-fix",),
        "with the op before it; alone a depthwise convolution of one pixel. Results need at least "
        "4 fractional bits",
    ),
    Row(
        "LeakyReLU", ("leaky-relu",), ("leaky-relu-fix",),
        "with slope 26/256 with the op before it; alone ALU LEAKYRELU with any slope of 8 bits "
        "and a shift",
    ),
    Row("PReLU", ("prelu",), ("prelu-fix",), "ALU PRELU with one slope a channel"),
    Row("Hard-Sigmoid", ("hard-sigmoid",), ("hard-sigmoid-fix",), "ALU HSIGMOID"),
    Row(
        "Hard-Swish", ("hard-swish",), (),
        "ALU HSIGMOID and ELEW MULT; the quantizer writes it as hard-sigmoid and mul",
    ),
    *(Row(name, (kind,), (), "") for name, kind in THREE_D.items()),
    *(
        Row(kind, (kind,), (), "")
        for kind in ("correlation1d_elemwise", "correlation2d_elemwise", "cost_volume")
    ),
)  # fmt: skip
"""Every row for DPUCZDX8G, and what the text of the table adds to it."""

BY_QUANTIZER = ("batchnorm", "hard-swish")
"""Ops that the quantizer replaces by others."""


def entries() -> list[tuple[str, str, str, str, str]]:
    """Return name, ops, how it runs, activations that become part of it, and conditions."""
    return [_entry(row) for row in ROWS]


def _entry(row: Row) -> tuple[str, str, str, str, str]:
    ops = ", ".join(f"`{kind}`" for kind in row.floats)
    known = {*RULES, *FINAL_RULES, *BY_QUANTIZER}
    missing = [kind for kind in row.floats if kind not in known]
    if missing:
        why = next((o.lift for o in map(operator_of, missing) if o.lift), "")
        return row.name, ops, f"CPU: {why}" if why else "CPU", "", ""
    fused = {act for kind in row.floats for act in operator_of(kind).fuses}
    conditions = [c.name for c in CONSTRAINTS if set(c.kinds) & set(row.fixed)]
    return (
        row.name,
        ops,
        row.text,
        ", ".join(f"`{act}`" for act in sorted(fused)),
        ", ".join(f"`{name}`" for name in conditions),
    )
