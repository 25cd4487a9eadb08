# SPDX-License-Identifier: Apache-2.0
"""The graph that legalization makes: its nodes, and those already made for the quantized graph."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu.compiler.fixed import point_of
from opendpu.compiler.legalize.multipliers import clamp_of, of_copy, rounding_of
from opendpu.ir import FixedGraph, Graph, Node, Quantization, TensorType
from opendpu.ops.functions import order_of

INTEGERS = Quantization.power_of_two(0)
"""Those of the DPU, whatever the scale."""


class Context:
    """One run of the pass.

    Parameters
    ----------
    graph
        The quantized graph.
    make_fixed
        Adds the int8 result of a ``fix`` op to :attr:`result`; returns the node.
    make_final
        Adds what an engine computes that no ``fix`` follows, if it does; returns the node.
    tables
        Whether the target has the extension ``table``.
    scaled
        Whether tensors have any scales and zero points, and ops requantize with multipliers.
    """

    def __init__(
        self,
        graph: Graph,
        make_fixed: Callable[["Context", Node], str],
        make_final: Callable[["Context", Node], str | None],
        *,
        tables: bool = False,
        scaled: bool = False,
    ) -> None:
        self.graph = graph
        self.tables = tables
        self.scaled = scaled
        self.users = graph.consumer_map()
        self.result = FixedGraph(graph.name)
        self._make_fixed = make_fixed
        self._make_final = make_final
        self._fixed: dict[str, str] = {}
        self._real: dict[str, str] = {}
        self._views: dict[tuple[str, tuple[int, ...]], str] = {}
        self._refused: dict[str, str] = {}

    @functools.cached_property
    def order(self) -> dict[str, int]:
        """The place of every op of the quantized graph in the order of computation."""
        return order_of(self.graph)

    def refuse(self, node: Node, reason: str) -> None:
        """Note why an op stays in float."""
        self._refused[node.name] = reason
        if node.name in self._real:
            self.result[self._real[node.name]].reason = reason

    def is_made(self, name: str) -> bool:
        """Return whether the result of an op has been made, in float or in integers."""
        return name in self._real or any(user.name in self._fixed for user in self.users[name])

    def real(self, name: str) -> str:
        """Return the node with the float result of an op."""
        if name not in self._real:
            self._real[name] = self._make_real(self.graph[name])
        return self._real[name]

    def _make_real(self, node: Node) -> str:
        if node.kind == "fix":
            source = self.result[self.fixed(node.name)]
            name = self.result.unique(f"{node.name}_fix2float")
            return self.result.add(
                name, "fix2float", TensorType(node.shape, quantization=source.quantization),
                {"input": [source.name]}, origin=node.origin,
            ).name  # fmt: skip
        made = self._make_final(self, node)
        if made is not None:
            return made
        inputs = {arg: [self.real(n) for n in names] for arg, names in node.inputs.items()}
        name = self.result.unique(node.name)
        copy = self.result.add(
            name, node.kind, node.type, inputs, node.attrs, node.value, origin=node.origin
        )
        copy.reason, copy.claim = self._refused.get(node.name) or node.reason, node.claim
        return name

    def fixed(self, name: str) -> str:
        """Return the node with the int8 result of a ``fix`` op, in the shape of that op."""
        if name not in self._fixed:
            node = self.graph[name]
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
        if key not in self._views and node.value is not None:
            made = self.result.add(
                self.result.unique(f"{node.name}_reshaped"), node.kind, node.type.with_shape(shape),
                value=node.value.reshape(shape), origin=node.origin,
            )  # fmt: skip
            self._views[key] = made.name
        if key not in self._views:
            made = self.result.add(
                self.result.unique(f"{node.name}_reshaped"), "reshape-fix",
                node.type.with_shape(shape), {"input": [node.name]}, {"shape": list(shape)},
                origin=node.origin, tensor=tensor or f"{node.tensor_name}_reshaped",
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
        name = self.result.unique(node.name)
        found = fix.quantization
        if not self.scaled:
            found = INTEGERS.along(found.fix_points, found.axis)
        made = TensorType.int8(shape or node.shape, 0).with_quantization(found)
        self.result.add(
            name, kind, made, inputs, attrs, value, origin=node.origin, tensor=tensor or fix.name
        )
        return name

    def constant(self, name: str, values: npt.ArrayLike, point: int) -> str:
        """Add an int8 constant; return the node."""
        array = np.asarray(values, dtype=np.int8)
        name = self.result.unique(name)
        made = TensorType.int8(array.shape, point)
        return self.result.add(name, "const-fix", made, value=array).name

    def take(self, name: str, fixed: str) -> None:
        """Say which node holds the integers of an op of the quantized graph."""
        self._fixed[name] = fixed

    def copy(
        self, name: str, node: Node, fix: Node, nonlinear: str = "NONE",
        activation: Node | None = None,
    ) -> str:  # fmt: skip
        """Return the same numbers at another position: an addition of one term."""
        source = self.result[name]
        if self.scaled:
            return self._requantized(source, node, fix, activation)
        if point_of(source) == fix.fix_point and nonlinear == "NONE":
            return name
        four = self.view(name, feature_shape(source.shape))
        attrs = {"type": "ADD", "nonlinear": nonlinear}
        return self.add(
            node, fix, "eltwise-fix", {"input": [four]}, attrs, shape=self.result[four].shape
        )

    def _requantized(self, source: Node, node: Node, fix: Node, activation: Node | None) -> str:
        """Return the same numbers with another scale, zero point or bounds."""
        made = fix.quantization
        if source.quantization.same_grid(made) and activation is None:
            return source.name
        found = of_copy(source.quantization, made, single=activation is not None)
        attrs = {"type": "ADD", "nonlinear": "NONE"}
        attrs |= found.attributes(rounding_of(made), clamp_of(activation, made))
        four = self.view(source.name, feature_shape(source.shape))
        return self.add(
            node, fix, "eltwise-fix", {"input": [four]}, attrs,
            shape=self.result[four].shape,
        )  # fmt: skip


def feature_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the NHWC shape of a tensor with batch one; of more axes, the first ones are rows."""
    rest = shape[1:]
    if len(rest) > 3:
        rest = (math.prod(rest[:-2]), *rest[-2:])
    return (shape[0], *(1,) * (3 - len(rest)), *rest)
