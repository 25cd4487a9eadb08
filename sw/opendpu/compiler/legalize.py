# SPDX-License-Identifier: Apache-2.0
"""Pass: a quantized float graph to fixed-point ops.

An op, the activation behind it and the ``fix`` behind that become one ``-fix`` op, if the inputs
are quantized too. Inner products become convolutions whose kernel is the whole feature map.
Everything else stays a float op between ``fix2float`` and ``float2fix``.
"""

from typing import Any

import numpy as np

from opendpu.compiler.fixed import POINT, TENSOR, point_of
from opendpu.ir import Draft, Node
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.numerics import quantize

ACTIVATIONS = {"relu": "RELU", "relu6": "RELU6", "leaky-relu": "LEAKYRELU"}
FUSED = {
    "conv2d": ("relu", "relu6", "leaky-relu"),
    "inner-product": ("relu", "relu6", "leaky-relu"),
    "depthwise-conv2d": ("relu", "relu6"),
    "add": ("relu",),
}
"""Activations that an op's engine applies before the only rounding."""
RESHAPES = ("reshape", "flatten", "squeeze")
MAX_KERNEL = 16
"""Rows and columns of the largest CONV kernel."""
RELU6_POINT = 4
"""Fractional bits at which the engine's bound 96 is six."""


def legalize(quantized: Draft) -> Draft:
    """Return the fixed-point form of a quantized graph; outputs keep their order.

    Raises
    ------
    UnsupportedError
        A ``fix`` op is not of 8 signed bits with DPU rounding.
    """
    work = _Legalizer(quantized)
    work.result.attrs = dict(quantized.attrs)
    for name in quantized.outputs:
        is_fix = quantized[name].kind == "fix"
        work.result.outputs.append(work.fixed(name) if is_fix else work.real(name))
    work.result.prune()
    _separate_names(work.result)
    return work.result


def _separate_names(draft: Draft) -> None:
    """Leave the name of a ``fix`` op to the last of the nodes that hold its values."""
    last: dict[str, Node] = {}
    for node in draft:
        tensor = node.attrs.get(TENSOR)
        if tensor in last:
            last[tensor].attrs[TENSOR] = f"{tensor}_before_{node.name}"
        if tensor is not None:
            last[tensor] = node


class _Legalizer:
    """One run of the pass: finished nodes by the op of the quantized graph they stand for."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.users = draft.consumer_map()
        self.result = Draft(draft.name)
        self._fixed: dict[str, str] = {}
        self._real: dict[str, str] = {}
        self._views: dict[tuple[str, tuple[int, ...]], str] = {}

    # Float side.

    def real(self, name: str) -> str:
        """Return the node with the float result of an op."""
        if name not in self._real:
            self._real[name] = self._make_real(self.draft[name])
        return self._real[name]

    def _make_real(self, node: Node) -> str:
        if node.kind == "fix":
            source = self.result[self.fixed(node.name)]
            attrs = _fix_attrs(point_of(source))
            name = self.result.unique(f"{node.name}_fix2float")
            return self.result.add(
                name, "fix2float", node.shape, {"input": [source.name]}, attrs
            ).name
        inputs = {arg: [self.real(n) for n in names] for arg, names in node.inputs.items()}
        name = self.result.unique(node.name)
        return self.result.add(name, node.kind, node.shape, inputs, node.attrs, node.value).name

    # Fixed-point side.

    def fixed(self, name: str) -> str:
        """Return the node with the int8 result of a ``fix`` op, in the shape of that op."""
        if name not in self._fixed:
            node = self.draft[name]
            _check_fix(node)
            made = self._make_fixed(node, self.draft[node.inputs["input"][0]])
            self._fixed[name] = self.view(made, node.shape, node.name)
        return self._fixed[name]

    def view(self, name: str, shape: tuple[int, ...], tensor: str = "") -> str:
        """Return a node with the same bytes in another shape; undoes an earlier reshape."""
        node = self.result[name]
        while node.kind == "reshape-fix" and node.shape != tuple(shape):
            node = self.result[node.inputs["input"][0]]
        if node.shape == tuple(shape):
            return node.name
        key = (node.name, tuple(shape))
        if key not in self._views:
            attrs: dict[str, Any] = {"shape": list(shape), POINT: point_of(node)}
            attrs[TENSOR] = tensor or f"{node.attrs.get(TENSOR, node.name)}_reshaped"
            made = self.result.add(
                self.result.unique(f"{node.name}_reshaped"), "reshape-fix", shape,
                {"input": [node.name]}, attrs,
            )  # fmt: skip
            self._views[key] = made.name
        return self._views[key]

    def _make_fixed(self, fix: Node, source: Node) -> str:
        attrs: dict[str, Any]
        point = int(fix.attrs["fix_point"])
        if source.value is not None:
            values = quantize(source.value, point, round_mode=fix.attrs["round_mode"])
            return self._add(source, fix, "const-fix", {}, {}, values.astype(np.int8))
        if source.kind == "data" and len(self.users[source.name]) == 1:
            attrs = {"shape": list(source.shape), "data_type": "XINT8"}
            return self._add(source, fix, "data-fix", {}, attrs, tensor=source.name)
        if source.kind == "fix":
            return self._copy(self.fixed(source.name), source, fix)
        node, activation = self._group(source)
        if node.sources() and all(self.draft[n].kind == "fix" for n in node.sources()):
            made = self._engine(node, activation, fix)
            if made is not None:
                return made
        attrs = {**_fix_attrs(point), POINT: point, TENSOR: fix.name}
        name = self.result.unique(f"{fix.name}_float2fix")
        inputs = {"input": [self.real(source.name)]}
        return self.result.add(name, "float2fix", fix.shape, inputs, attrs).name

    def _group(self, source: Node) -> tuple[Node, Node | None]:
        """Return the op behind a ``fix`` and the activation between, if its engine has it."""
        if source.kind in ACTIVATIONS:
            before = self.draft[source.inputs["input"][0]]
            if source.kind in FUSED.get(before.kind, ()) and len(self.users[before.name]) == 1:
                return before, source
        return source, None

    def _add(
        self,
        node: Node,
        fix: Node,
        kind: str,
        inputs: dict[str, list[str]],
        attrs: dict[str, Any],
        value: Any = None,
        shape: tuple[int, ...] | None = None,
        tensor: str = "",
    ) -> str:
        attrs = {**attrs, POINT: int(fix.attrs["fix_point"]), TENSOR: tensor or fix.name}
        name = self.result.unique(node.name)
        return self.result.add(name, kind, shape or node.shape, inputs, attrs, value).name

    def _copy(self, name: str, node: Node, fix: Node, nonlinear: str = "NONE") -> str:
        """Return the same numbers at another position: an addition of one term."""
        source = self.result[name]
        if point_of(source) == int(fix.attrs["fix_point"]) and nonlinear == "NONE":
            return name
        four = self.view(name, _feature_shape(source.shape))
        attrs = {"type": "ADD", "nonlinear": nonlinear}
        return self._add(
            node, fix, "eltwise-fix", {"input": [four]}, attrs, shape=self.result[four].shape
        )

    def _engine(self, node: Node, activation: Node | None, fix: Node) -> str | None:
        """Return the ``-fix`` op of an op whose inputs are quantized, or none if it has none."""
        attrs: dict[str, Any]
        nonlinear = _nonlinear(activation, int(fix.attrs["fix_point"]))
        if nonlinear is None:
            return None
        sources = [self.fixed(n) for n in node.inputs.get("input", ())]
        match node.kind:
            case "conv2d" | "depthwise-conv2d":
                attrs = {
                    "kernel": list(node.attrs["kernel"]), "stride": list(node.attrs["stride"]),
                    "dilation": list(node.attrs.get("dilation") or [1, 1]),
                    "pad": explicit_pad(node, self.result[sources[0]].shape),
                    "nonlinear": nonlinear, "pad_mode": "FLOOR",
                }  # fmt: skip
                if node.kind == "conv2d":
                    attrs["group"] = int(node.attrs.get("group") or 1)
                inputs = {arg: [self.fixed(n) for n in names] for arg, names in node.inputs.items()}
                return self._add(node, fix, f"{node.kind}-fix", inputs, attrs)
            case "inner-product":
                return self._inner_product(node, fix, sources[0], nonlinear)
            case "maxpool2d" | "avgpool2d":
                return self._pool(node, fix, sources[0])
            case "add":
                fours = [self.view(s, _feature_shape(self.result[s].shape)) for s in sources]
                shape = _feature_shape(node.shape)
                if any(self.result[s].shape != shape for s in fours):
                    return None
                attrs = {"type": "ADD", "nonlinear": nonlinear}
                return self._add(node, fix, "eltwise-fix", {"input": fours}, attrs, shape=shape)
            case "relu":
                return self._copy(sources[0], node, fix, "RELU")
            case "concat":
                return self._concat(node, fix, sources)
            case kind if kind in RESHAPES:
                copied = self._copy(sources[0], node, fix)
                return self.view(copied, fix.shape, fix.name)
        return None

    def _inner_product(self, node: Node, fix: Node, name: str, nonlinear: str) -> str | None:
        weights = self.draft[node.inputs["weights"][0]]
        values = self.result[self.fixed(weights.name)]
        source = self.result[name]
        if int(node.attrs["axis"]) % len(source.shape) != len(source.shape) - 1:
            return None
        if len(source.shape) != 2 or values.value is None:
            return None
        root = source
        while root.kind == "reshape-fix":
            root = self.result[root.inputs["input"][0]]
        shape = _feature_shape(root.shape)
        if max(shape[1:3]) > MAX_KERNEL:
            shape = _feature_shape(source.shape)
        outputs = values.value.shape[0]
        kernel = self.result.add(
            self.result.unique(f"{values.name}_reshaped"), "const-fix", (outputs, *shape[1:]),
            {}, values.attrs, values.value.reshape(outputs, *shape[1:]),
        )  # fmt: skip
        inputs = {"input": [self.view(name, shape)], "weights": [kernel.name]}
        if node.inputs.get("bias"):
            inputs["bias"] = [self.fixed(node.inputs["bias"][0])]
        attrs = {
            "kernel": [shape[2], shape[1]], "stride": [1, 1], "dilation": [1, 1],
            "pad": [0, 0, 0, 0], "nonlinear": nonlinear, "group": 1, "pad_mode": "FLOOR",
        }  # fmt: skip
        return self._add(node, fix, "conv2d-fix", inputs, attrs, shape=(1, 1, 1, outputs))

    def _pool(self, node: Node, fix: Node, name: str) -> str | None:
        source = self.result[name]
        kernel, stride = list(node.attrs["kernel"]), list(node.attrs["stride"])
        pad = explicit_pad(node, source.shape)
        if node.attrs.get("global"):
            kernel = stride = [source.shape[2], source.shape[1]]
            pad = [0, 0, 0, 0]
        average = node.kind == "avgpool2d"
        if average and any(pad) and not node.attrs.get("count_include_pad", True):
            return None
        attrs = {
            "kernel": kernel, "stride": stride, "pad": pad, "type": "AVG" if average else "MAX",
            "pad_mode": "FLOOR",
        }  # fmt: skip
        return self._add(node, fix, "pool-fix", {"input": [name]}, attrs)

    def _concat(self, node: Node, fix: Node, sources: list[str]) -> str:
        copied = []
        for number, name in enumerate(sources):
            made = name
            if point_of(self.result[name]) != int(fix.attrs["fix_point"]):
                part = Node(f"{node.name}_part{number}", "", self.result[name].shape)
                where = Node(f"{fix.name}_part{number}", "fix", part.shape, attrs=fix.attrs)
                made = self.view(self._copy(name, part, where), part.shape)
            copied.append(made)
        attrs = {"axis": int(node.attrs["axis"]) % len(node.shape)}
        return self._add(node, fix, "concat-fix", {"input": copied}, attrs)


def explicit_pad(node: Node, shape: tuple[int, ...]) -> list[int]:
    """Return left, right, top and bottom padding of a window op with any ``pad_mode``."""
    pad = [int(p) for p in node.attrs.get("pad") or (0, 0, 0, 0)]
    mode = str(node.attrs.get("pad_mode", "FLOOR")).upper()
    if mode not in ("SAME", "CEIL"):
        return pad
    for axis, size in ((0, shape[2]), (1, shape[1])):
        gap = int((node.attrs.get("dilation") or [1, 1])[axis])
        extent = (int(node.attrs["kernel"][axis]) - 1) * gap + 1
        stride = int(node.attrs["stride"][axis])
        total = size + pad[2 * axis] + pad[2 * axis + 1]
        if mode == "SAME":
            missing = max(0, (-(-total // stride) - 1) * stride + extent - total)
            before = missing // 2
        else:
            missing = max(0, -(-(total - extent) // stride) * stride + extent - total)
            before = 0
        pad[2 * axis] += before
        pad[2 * axis + 1] += missing - before
    return pad


def _nonlinear(activation: Node | None, point: int) -> str | None:
    """Return the ``nonlinear`` attribute, or none if the engine has no such activation."""
    if activation is None:
        return "NONE"
    if activation.kind == "relu6" and point != RELU6_POINT:
        # Above, saturation at 127 comes before six; below, the engine's bound is wrong.
        return "RELU" if point > RELU6_POINT else None
    if activation.kind == "leaky-relu" and abs(activation.attrs["alpha"] - 26 / 256) > 1e-6:
        return None
    return ACTIVATIONS[activation.kind]


def _feature_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the NHWC shape of a tensor with batch one and up to three further axes."""
    rest = shape[1:]
    return (shape[0], *(1,) * (3 - len(rest)), *rest) if len(rest) < 3 else tuple(shape)


def _fix_attrs(point: int) -> dict[str, Any]:
    return {"fix_point": point, "bit_width": 8, "if_signed": True, "round_mode": "DPU_ROUND"}


def _check_fix(node: Node) -> None:
    width, signed = node.attrs["bit_width"], node.attrs["if_signed"]
    if width != 8 or not signed:
        raise UnsupportedError(
            f"fix op {node.name!r} has {width} {'signed' if signed else 'unsigned'} bits, "
            "but must have 8 signed bits"
        )
