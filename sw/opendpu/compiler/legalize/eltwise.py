# SPDX-License-Identifier: Apache-2.0
"""Sums and products, of feature maps and of feature maps with one constant a channel."""

from opendpu.compiler.fixed import point_of
from opendpu.compiler.legalize.affine import affine
from opendpu.compiler.legalize.context import feature_shape
from opendpu.compiler.legalize.refusal import Refusal
from opendpu.compiler.legalize.registry import Call, legalizes
from opendpu.ir import Node
from opendpu_arch.numerics import GUARD_BITS

PAIR = 2
TYPES = {"add": "ADD", "sub": "SUB", "mul": "MUL"}


@legalizes("add", "mul")
def eltwise(call: Call) -> str:
    """Make an operation of feature maps of one shape, or a depthwise convolution of one pixel.

    What the engine cannot do stays an ``eltwise-fix``, because it rounds as the engine would.
    """
    try:
        constants = [s for s in call.sources if call.context.result[s].value is not None]
        return _with_constant(call, constants) if constants else of_features(call)
    except Refusal as refusal:
        inputs = {"input": call.sources}
        made = call.context.add(call.node, call.fix, "eltwise-fix", inputs, _attrs(call))
        call.context.result[made].reason = str(refusal)
        return made


def _attrs(call: Call) -> dict[str, str]:
    return {"type": TYPES[call.node.kind], "nonlinear": call.nonlinear}


def of_features(call: Call) -> str:
    """Make an operation of feature maps of one shape, after repeating single rows and columns.

    A single pixel comes last; that of a difference stays where it is, and is repeated if first.
    """
    context, node = call.context, call.node
    shape = feature_shape(node.shape)
    fours = [context.view(s, feature_shape(context.result[s].shape)) for s in call.sources]
    pixel = (*(1,) * (len(shape) - 1), shape[-1])
    single = [name for name in fours if context.result[name].shape == pixel != shape]
    movable = node.kind != "sub" or fours[0] not in single
    if len(fours) == PAIR and len(single) == 1 and movable:  # read for every place
        whole = [_broadcast(call, name, shape) for name in fours if name not in single]
        fours = [*whole, *single]
    else:
        fours = [_broadcast(call, name, shape) for name in fours]
    return context.add(node, call.fix, "eltwise-fix", {"input": fours}, _attrs(call), shape=shape)


def _broadcast(call: Call, name: str, shape: tuple[int, ...]) -> str:
    """Return a feature map with its single rows and columns repeated up to ``shape``."""
    context, source = call.context, call.context.result[name]
    if source.shape == shape:
        return name
    alike = all(old in (1, new) for old, new in zip(source.shape, shape, strict=True))
    if not alike or source.shape[3] != shape[3] or source.shape[0] != shape[0]:
        raise Refusal(
            f"DPU only supports {call.node.kind} of feature maps with the same channels, and as "
            f'many rows and columns or one, but "{name}" has {list(source.shape)} and the result '
            f"{list(shape)}; an input of the full shape would lift it",
            "XCOM_TENSOR_SHAPE_UNMATCH",
        )
    attrs = {
        "mode": "NEAREST", "scale": [shape[2] / source.shape[2], shape[1] / source.shape[1]],
        "align_corners": False, "half_pixel_centers": False,
    }  # fmt: skip
    made = context.result.unique(f"{call.node.name}_broadcast")
    return context.result.add(
        made, "upsample-fix", source.type.with_shape(shape), {"input": [name]}, attrs,
        origin=call.node.origin, tensor=f"{call.node.name}_broadcast",
    ).name  # fmt: skip


def _with_constant(call: Call, constants: list[str]) -> str:
    """Make a feature map times or plus one constant a channel, or one an element."""
    context, node = call.context, call.node
    features = [s for s in call.sources if s not in constants]
    if len(features) != 1 or len(constants) != 1:
        raise Refusal(
            f"DPU only supports {node.kind} of feature maps, or of one and a constant, but there "
            f"are {len(features)} feature maps and {len(constants)} constants",
            "XCOM_TOO_MANY_INPUTS",
        )
    feature, constant = context.result[features[0]], context.result[constants[0]]
    assert constant.value is not None
    if constant.value.size > feature.shape[-1] and constant.shape == feature.shape == node.shape:
        return of_features(call)
    channels = feature.shape[-1]
    if feature.shape != node.shape or constant.value.size not in (1, constant.shape[-1]) or (
        constant.shape[-1] not in (1, channels)
    ):  # fmt: skip
        raise Refusal(
            f"DPU only supports {node.kind} of a feature map and one constant a channel, but "
            f'"{constant.name}" has shape {list(constant.shape)} and the feature map '
            f"{list(feature.shape)}; one value a channel or an element would lift it",
            "XCOM_TENSOR_SHAPE_UNMATCH",
        )
    values = [int(v) for v in constant.value.reshape(-1)]
    if node.kind == "mul":
        return affine(call, feature.name, factors=values, point=point_of(constant))
    return _plus(call, feature, constant, values)


def _plus(call: Call, feature: Node, constant: Node, values: list[int]) -> str:
    """Make a sum with a constant, whose bits beyond the guard are cut as those of an input."""
    at, finest = point_of(constant), point_of(feature) + GUARD_BITS
    if at > finest:
        values = [v >> (at - finest) for v in values]
        at = finest
    if at + GUARD_BITS < point_of(feature):
        raise Refusal(
            f'DPU only supports a "fix_point"({at}) of the constant "{constant.name}" at most '
            f"{GUARD_BITS} below that of the feature map, {point_of(feature)}; a finer one lifts "
            "it",
            "XCOM_UNSUPPORT_QUANTIZATION",
        )
    return affine(call, feature.name, bias=values, bias_point=at)
