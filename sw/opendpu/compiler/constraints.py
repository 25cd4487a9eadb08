# SPDX-License-Identifier: Apache-2.0
"""What the DPU cannot do: one named predicate each, with the text users see.

A predicate gets a node of a fixed-point graph, the graph and the target, and returns why the node
must run on the CPU, or nothing. Limits are those of the target. Inspector, compiler report and
documentation read :data:`CONSTRAINTS`.
"""

import dataclasses
from collections.abc import Callable

from opendpu.compiler.fixed import COMPUTE, LAYERS, MOVE, is_fixed, point_of
from opendpu.ir import Draft, Node
from opendpu_arch.target import Target

MAX_GROUPS = 256
"""Channel groups of an instruction."""
MAX_CONV_KERNEL = 16
MAX_CONV_STRIDE = 8
MAX_ALU_KERNEL = 256
MAX_PAD_BEFORE = 15
"""Top and left padding of an instruction."""
MAX_SHIFT_CUT = 63
MAX_SHIFT_BIAS = 20
MAX_SHIFT_READ = 15
MAX_ELEW_INPUTS = 4

FLOAT = (
    "conv2d", "depthwise-conv2d", "inner-product", "maxpool2d", "avgpool2d", "add", "relu",
    "concat", "reshape", "flatten", "squeeze",
)  # fmt: skip
"""Float ops that become fixed-point ops where their inputs and results are quantized."""

Check = Callable[[Node, Draft, Target], str | None]


@dataclasses.dataclass(frozen=True)
class Constraint:
    """One thing the DPU cannot do."""

    name: str
    text: str
    """What is required, for the documentation."""
    kinds: tuple[str, ...]
    check: Check


CONSTRAINTS: list[Constraint] = []
"""Every constraint, in the order they are checked."""


def _constraint(text: str, *kinds: str) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        CONSTRAINTS.append(Constraint(check.__name__.lstrip("_"), text, kinds, check))
        return check

    return register


def reason(node: Node, draft: Draft, target: Target) -> str | None:
    """Return why a node cannot run on the DPU, or nothing."""
    if node.kind in FLOAT:
        return f"DPU only supports {node.kind} whose inputs, activation and result it can quantize"
    if node.kind not in (*COMPUTE, *MOVE):
        return f"the DPU has no {node.kind}"
    for constraint in CONSTRAINTS:
        if node.kind in constraint.kinds:
            found = constraint.check(node, draft, target)
            if found:
                return found
    return None


def _pair(node: Node, key: str) -> list[tuple[str, int]]:
    """Return width and height of a window attribute with their names."""
    values = node.attrs.get(key) or [1, 1]
    return [(f"{key}_width", int(values[0])), (f"{key}_height", int(values[1]))]


def extent(node: Node) -> tuple[int, int]:
    """Return rows and columns that a kernel covers, dilation counted."""
    (_, gap_w), (_, gap_h) = _pair(node, "dilation")
    (_, width), (_, height) = _pair(node, "kernel")
    return (height - 1) * gap_h + 1, (width - 1) * gap_w + 1


def _inputs(node: Node, draft: Draft, arg: str = "input") -> list[Node]:
    return [draft[n] for n in node.inputs.get(arg, ())]


@_constraint("The batch is 1.", *COMPUTE, *MOVE)
def _batch(node: Node, draft: Draft, target: Target) -> str | None:
    for tensor in (node, *_inputs(node, draft)):
        if tensor.shape and tensor.shape[0] != 1:
            return f"DPU only supports input batch to be 1, but it's {tensor.shape[0]} now"
    return None


@_constraint("Inputs are int8 feature maps, not constants.", *COMPUTE, *MOVE)
def _feature_inputs(node: Node, draft: Draft, target: Target) -> str | None:
    for source in _inputs(node, draft):
        if not is_fixed(source):
            return f'DPU only supports quantized inputs, but "{source.name}" is float'
        if source.value is not None:
            return f'DPU only supports feature maps as inputs, but "{source.name}" is a constant'
        if len(source.shape) > 4:
            return f'DPU only supports 4 dimensions, but "{source.name}" has {len(source.shape)}'
    return None


@_constraint("Weights and bias are constants.", *LAYERS)
def _constant_weights(node: Node, draft: Draft, target: Target) -> str | None:
    for arg in ("weights", "bias"):
        for source in _inputs(node, draft, arg):
            if source.value is None:
                return f'DPU only supports constant "{arg}", but "{source.name}" is computed'
    return None


@_constraint("conv2d has one group.", "conv2d-fix")
def _group(node: Node, draft: Draft, target: Target) -> str | None:
    group = int(node.attrs.get("group", 1))
    return None if group == 1 else f'DPU only supports "group"({group}) to be 1'


@_constraint(
    f"Kernels of convolutions are 1..{MAX_CONV_KERNEL} rows and columns, dilation counted.", *LAYERS
)
def _conv_kernel(node: Node, draft: Draft, target: Target) -> str | None:
    for name, size in zip(("kernel_height", "kernel_width"), extent(node), strict=True):
        if not 1 <= size <= MAX_CONV_KERNEL:
            return f'DPU only supports "{name}"({size}) in 1..{MAX_CONV_KERNEL}'
    return None


@_constraint(f"Strides of convolutions are 1..{MAX_CONV_STRIDE}.", *LAYERS)
def _conv_stride(node: Node, draft: Draft, target: Target) -> str | None:
    for name, size in _pair(node, "stride"):
        if not 1 <= size <= MAX_CONV_STRIDE:
            return f'DPU only supports "{name}"({size}) in 1..{MAX_CONV_STRIDE}'
    return None


@_constraint(f"Kernels and strides of pooling are 1..{MAX_ALU_KERNEL}.", "pool-fix")
def _pool_window(node: Node, draft: Draft, target: Target) -> str | None:
    for name, size in (*_pair(node, "kernel"), *_pair(node, "stride")):
        if not 1 <= size <= MAX_ALU_KERNEL:
            return f'DPU only supports "{name}"({size}) in 1..{MAX_ALU_KERNEL}'
    return None


@_constraint(
    f"Padding is less than the kernel; left and top at most {MAX_PAD_BEFORE}.", *LAYERS, "pool-fix"
)
def _padding(node: Node, draft: Draft, target: Target) -> str | None:
    left, right, top, bottom = (int(p) for p in node.attrs["pad"])
    height, width = extent(node)
    for name, pad, limit, what in (
        ("pad_left", left, width, "kernel_width"),
        ("pad_right", right, width, "kernel_width"),
        ("pad_top", top, height, "kernel_height"),
        ("pad_bottom", bottom, height, "kernel_height"),
    ):
        if not 0 <= pad < limit:
            return f'DPU only supports "{name}"({pad}) less than "{what}"({limit})'
    for name, pad in (("pad_left", left), ("pad_top", top)):
        if pad > MAX_PAD_BEFORE:
            return f'DPU only supports "{name}"({pad}) in 0..{MAX_PAD_BEFORE}'
    return None


@_constraint(f"Channels are at most {MAX_GROUPS} times the channel parallel.", *COMPUTE)
def _channels(node: Node, draft: Draft, target: Target) -> str | None:
    limit = MAX_GROUPS * target.channel_parallel
    for name, tensor in (*(("input", s) for s in _inputs(node, draft)), ("output", node)):
        if tensor.shape[-1] > limit:
            return f'DPU only supports "{name}_channel"({tensor.shape[-1]}) up to {limit}'
    return None


@_constraint("kernel_w * kernel_h * ceil(input channels / CP) is at most the bank depth.", *LAYERS)
def _weights_fit(node: Node, draft: Draft, target: Target) -> str | None:
    height, width = extent(node)
    groups = -(-_inputs(node, draft)[0].shape[-1] // target.channel_parallel)
    words = height * width * (groups if node.kind == "conv2d-fix" else 1)
    if words <= target.bank_depth:
        return None
    return (
        f'DPU only supports kernels whose weights fit a bank of "bank_depth"({target.bank_depth}) '
        f"words, but a kernel of {height}x{width} with {groups} channel groups needs {words}"
    )


@_constraint("Leaky-ReLU needs a target with it; RELU6 and RELU always exist.", *LAYERS)
def _nonlinear(node: Node, draft: Draft, target: Target) -> str | None:
    kind = node.attrs.get("nonlinear", "NONE")
    if kind == "LEAKYRELU" and not (node.kind == "conv2d-fix" and target.conv_leaky_relu):
        return f'DPU of target {target.name} does not support "nonlinear"({kind})'
    return None


@_constraint(f"Shifts fit their fields: cut 0..{MAX_SHIFT_CUT}, bias 0..{MAX_SHIFT_BIAS}.", *LAYERS)
def _layer_shifts(node: Node, draft: Draft, target: Target) -> str | None:
    product = point_of(_inputs(node, draft)[0]) + point_of(_inputs(node, draft, "weights")[0])
    cut = product - point_of(node)
    if not 0 <= cut <= MAX_SHIFT_CUT:
        return f'DPU only supports "shift_cut"({cut}) in 0..{MAX_SHIFT_CUT}'
    for source in _inputs(node, draft, "bias"):
        shift = product - point_of(source) + 1
        if not 0 <= shift <= MAX_SHIFT_BIAS:
            return f'DPU only supports "shift_bias"({shift}) in 0..{MAX_SHIFT_BIAS}'
    return None


@_constraint("Pooling shifts its result left by at most 7 or right by at most 55.", "pool-fix")
def _pool_shifts(node: Node, draft: Draft, target: Target) -> str | None:
    right = point_of(_inputs(node, draft)[0]) - point_of(node)
    if not -7 <= right <= 40:
        return f"DPU only supports a change of fix point in -7..40, but here it is {right}"
    return None


@_constraint(f"Additions have at most {MAX_ELEW_INPUTS} inputs.", "eltwise-fix")
def _elew_inputs(node: Node, draft: Draft, target: Target) -> str | None:
    count = len(node.inputs["input"])
    if count > MAX_ELEW_INPUTS:
        return f'DPU only supports "input_num"({count}) up to {MAX_ELEW_INPUTS}'
    return None


@_constraint(f"Fix points of an addition are at most {MAX_SHIFT_READ} apart.", "eltwise-fix")
def _elew_shifts(node: Node, draft: Draft, target: Target) -> str | None:
    points = [point_of(s) for s in _inputs(node, draft)]
    lowest = min(points)
    if max(points) - lowest > MAX_SHIFT_READ or abs(lowest - point_of(node)) > MAX_SHIFT_READ:
        return (
            f"DPU only supports fix points at most {MAX_SHIFT_READ} apart, "
            f"but they are {points} and {point_of(node)}"
        )
    return None


@_constraint("Concatenation is along channels or rows.", "concat-fix")
def _concat_axis(node: Node, draft: Draft, target: Target) -> str | None:
    axis, rank = int(node.attrs["axis"]), len(node.shape)
    if rank == 4 and axis in (1, 3):
        return None
    return f'DPU only supports "axis"({axis}) 1 or 3 of 4 dimensions, but there are {rank}'
