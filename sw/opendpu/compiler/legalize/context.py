# SPDX-License-Identifier: Apache-2.0
"""The graph that legalization makes: its nodes, and those already made for the quantized graph."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu.compiler.fixed import POINT, REASON, TENSOR, point_of
from opendpu.ir import Draft, Node


class Context:
    """One run of the pass.

    Parameters
    ----------
    draft
        The quantized graph.
    make_fixed
        Adds the int8 result of a ``fix`` op to :attr:`result`; returns the node.
    make_final
        Adds what an engine computes that no ``fix`` follows, if it does; returns the node.
    """

    def __init__(
        self,
        draft: Draft,
        make_fixed: Callable[["Context", Node], str],
        make_final: Callable[["Context", Node], str | None],
    ) -> None:
        self.draft = draft
        self.users = draft.consumer_map()
        self.result = Draft(draft.name)
        self._make_fixed = make_fixed
        self._make_final = make_final
        self._fixed: dict[str, str] = {}
        self._real: dict[str, str] = {}
        self._views: dict[tuple[str, tuple[int, ...]], str] = {}
        self._refused: dict[str, str] = {}

    def refuse(self, node: Node, reason: str) -> None:
        """Note why an op stays in float."""
        self._refused[node.name] = reason
        if node.name in self._real:
            self.result[self._real[node.name]].attrs[REASON] = reason

    def real(self, name: str) -> str:
        """Return the node with the float result of an op."""
        if name not in self._real:
            self._real[name] = self._make_real(self.draft[name])
        return self._real[name]

    def _make_real(self, node: Node) -> str:
        if node.kind == "fix":
            source = self.result[self.fixed(node.name)]
            attrs = fix_attrs(point_of(source))
            name = self.result.unique(f"{node.name}_fix2float")
            return self.result.add(
                name, "fix2float", node.shape, {"input": [source.name]}, attrs
            ).name
        made = self._make_final(self, node)
        if made is not None:
            return made
        inputs = {arg: [self.real(n) for n in names] for arg, names in node.inputs.items()}
        name = self.result.unique(node.name)
        attrs = dict(node.attrs)
        if node.name in self._refused:
            attrs[REASON] = self._refused[node.name]
        return self.result.add(name, node.kind, node.shape, inputs, attrs, node.value).name

    def fixed(self, name: str) -> str:
        """Return the node with the int8 result of a ``fix`` op, in the shape of that op."""
        if name not in self._fixed:
            node = self.draft[name]
            self._fixed[name] = self.view(self._make_fixed(self, node), node.shape, node.name)
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

    def add(
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
        """Add the fixed-point op that stands for ``node`` and the ``fix`` behind it."""
        attrs = {**attrs, POINT: int(fix.attrs["fix_point"]), TENSOR: tensor or fix.name}
        name = self.result.unique(node.name)
        return self.result.add(name, kind, shape or node.shape, inputs, attrs, value).name

    def constant(self, name: str, values: npt.ArrayLike, point: int) -> str:
        """Add an int8 constant; return the node."""
        array = np.asarray(values, dtype=np.int8)
        name = self.result.unique(name)
        return self.result.add(name, "const-fix", array.shape, {}, {POINT: point}, array).name

    def copy(self, name: str, node: Node, fix: Node, nonlinear: str = "NONE") -> str:
        """Return the same numbers at another position: an addition of one term."""
        source = self.result[name]
        if point_of(source) == int(fix.attrs["fix_point"]) and nonlinear == "NONE":
            return name
        four = self.view(name, feature_shape(source.shape))
        attrs = {"type": "ADD", "nonlinear": nonlinear}
        return self.add(
            node, fix, "eltwise-fix", {"input": [four]}, attrs, shape=self.result[four].shape
        )


def feature_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the NHWC shape of a tensor with batch one and up to three further axes."""
    rest = shape[1:]
    return (shape[0], *(1,) * (3 - len(rest)), *rest) if len(rest) < 3 else tuple(shape)


def fix_attrs(point: int) -> dict[str, Any]:
    """Return the attributes of an op that converts to or from int8."""
    return {"fix_point": point, "bit_width": 8, "if_signed": True, "round_mode": "DPU_ROUND"}
