# SPDX-License-Identifier: Apache-2.0
"""Shapes of ops with a kernel: convolutions and pooling, one to three dimensions."""

from opendpu_arch.errors import GraphError
from xir.shapes.rule import Node, Rule, first_dims

_MODES = ("FLOOR", "CEIL", "SAME", "VALID")


def _vector(op: Node, name: str, rank: int, default: int) -> list[int]:
    """Return a per-axis attribute, outermost axis first (attributes are w, h, d)."""
    value = op.get_attr(name) if op.has_attr(name) else [default] * rank
    if len(value) != rank or any(v < 1 for v in value):
        raise GraphError(f"{name} is {value}, but must be {rank} positive integers")
    return list(reversed(value))


def _pads(op: Node, rank: int) -> list[tuple[int, int]]:
    pad = op.get_attr("pad") if op.has_attr("pad") else [0] * 2 * rank
    if len(pad) != 2 * rank:
        raise GraphError(f"pad is {pad}, but must be {2 * rank} integers")
    return [(pad[2 * i], pad[2 * i + 1]) for i in reversed(range(rank))]


def _mode(op: Node) -> str:
    mode = str(op.get_attr("pad_mode")).upper() if op.has_attr("pad_mode") else "FLOOR"
    if mode not in _MODES:
        raise GraphError(f"pad_mode is {mode!r}, but must be one of {', '.join(_MODES)}")
    return mode


def _forward(size: int, kernel: int, stride: int, pad: int, mode: str) -> int:
    match mode:
        case "SAME":
            return -(-(size + pad) // stride)
        case "CEIL":
            return -(-(size + pad - kernel) // stride) + 1
        case "VALID":
            return -(-(size + pad - kernel + 1) // stride)
    return (size + pad - kernel) // stride + 1


def _transposed(size: int, kernel: int, stride: int, pad: int, mode: str) -> int:
    match mode:
        case "SAME":
            return size * stride
        case "VALID":
            return (size - 1) * stride + kernel
    return (size - 1) * stride + kernel - pad


def _window(op: Node, rank: int, *, transposed: bool = False) -> list[int]:
    """Return the spatial dimensions of the result."""
    dims = first_dims(op)
    if len(dims) != rank + 2:
        raise GraphError(f"input has dimensions {dims}, but must have {rank + 2}")
    if op.has_attr("global") and op.get_attr("global"):
        return [1] * rank
    kernel, stride = _vector(op, "kernel", rank, 1), _vector(op, "stride", rank, 1)
    dilation, pads, mode = _vector(op, "dilation", rank, 1), _pads(op, rank), _mode(op)
    size = _transposed if transposed else _forward
    extents = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    return [
        size(*values, mode)
        for values in zip(dims[1:-1], extents, stride, map(sum, pads), strict=True)
    ]


def _check_bias(op: Node, channels: int) -> None:
    if not op.get_input_num("bias"):
        return
    bias = op.get_input_tensor("bias").dims
    if bias != [channels]:
        raise GraphError(f"bias has dimensions {bias}, but must be [{channels}]")


def _conv(rank: int, *, transposed: bool = False) -> Rule:
    def rule(op: Node) -> list[int]:
        dims = first_dims(op)
        spatial = _window(op, rank, transposed=transposed)
        weights = op.get_input_tensor("weights").dims
        group = op.get_attr("group") if op.has_attr("group") else 1
        kernel = _vector(op, "kernel", rank, 1)
        if (
            len(weights) != rank + 2
            or weights[1:-1] != kernel
            or weights[-1] * group != dims[-1]
            or weights[0] % group
        ):
            raise GraphError(
                f"weights have dimensions {weights}, but must be "
                f"[output channels, {', '.join(map(str, kernel))}, {dims[-1]}/{group}]"
            )
        _check_bias(op, weights[0])
        return [dims[0], *spatial, weights[0]]

    return rule


def _depthwise(rank: int, *, transposed: bool = False) -> Rule:
    def rule(op: Node) -> list[int]:
        dims = first_dims(op)
        spatial = _window(op, rank, transposed=transposed)
        weights = op.get_input_tensor("weights").dims
        kernel = _vector(op, "kernel", rank, 1)
        if len(weights) != rank + 2 or weights[1:] != [*kernel, dims[-1]]:
            raise GraphError(
                f"weights have dimensions {weights}, but must be "
                f"[multiplier, {', '.join(map(str, kernel))}, {dims[-1]}]"
            )
        _check_bias(op, weights[0] * dims[-1])
        return [dims[0], *spatial, weights[0] * dims[-1]]

    return rule


def _pool(rank: int) -> Rule:
    return lambda op: [first_dims(op)[0], *_window(op, rank), first_dims(op)[-1]]


def _with_fix(rules: dict[str, Rule]) -> dict[str, Rule]:
    return {**rules, **{f"{name}-fix": rule for name, rule in rules.items()}}


RULES: dict[str, Rule] = {
    "conv1d": _conv(1),
    **_with_fix({"conv2d": _conv(2), "conv3d": _conv(3)}),
    **_with_fix({f"depthwise-conv{rank}d": _depthwise(rank) for rank in (2, 3)}),
    **_with_fix({f"transposed-conv{rank}d": _conv(rank, transposed=True) for rank in (2, 3)}),
    **_with_fix(
        {f"transposed-depthwise-conv{rank}d": _depthwise(rank, transposed=True) for rank in (2, 3)}
    ),
    "maxpool1d": _pool(1),
    "maxpool2d": _pool(2),
    "avgpool2d": _pool(2),
    "pool-fix": _pool(2),
}
