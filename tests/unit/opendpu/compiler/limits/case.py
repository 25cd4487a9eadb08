# SPDX-License-Identifier: Apache-2.0
"""What a case is: a graph at a limit or just beyond it, and the reason it then gets."""

import dataclasses
import math
from collections.abc import Callable

from graph_draws import Quantized

from opendpu.compiler.constraints import CONSTRAINTS
from opendpu_arch.target import Target

Pair = tuple[int, int]
"""Width, then height."""


class Drawing(Quantized):
    """A graph in which the op at the limit is called ``op``."""

    def __init__(self, beyond: bool) -> None:
        super().__init__()
        self.beyond = beyond

    def either(self, limit: int, beyond: int | None = None) -> int:
        """Return the limit, or what is just beyond: one more if not given."""
        return (limit + 1 if beyond is None else beyond) if self.beyond else limit

    def layer(
        self, kind: str, source: str, outputs: int, kernel: Pair, stride: Pair = (1, 1),
        pad: tuple[int, int, int, int] = (0, 0, 0, 0), point: int = 3,
        weights: int | list[int] = 8, bias: int | list[int] | None = 6,
        act: str | None = None, alpha: float = 26 / 256, **attrs,
    ) -> str:  # fmt: skip
        """Add a layer called ``op``, its activation and ``fix``; padding starts at the left."""
        _, height, width, inputs = self.graph[source].shape
        gaps = attrs.get("dilation", [1, 1])
        reach = [(k - 1) * gap + 1 for k, gap in zip(kernel, gaps, strict=True)]
        if "transposed" in kind:
            size = [
                (n - 1) * s + r - sum(p)
                for n, s, r, p in zip(
                    (width, height), stride, reach, (pad[:2], pad[2:]), strict=True
                )
            ]
        else:
            size = [
                (n + sum(p) - r) // s + 1
                for n, s, r, p in zip(
                    (width, height), stride, reach, (pad[:2], pad[2:]), strict=True
                )
            ]
        deep = "depthwise" in kind
        first = outputs // inputs if deep else outputs
        last = inputs // attrs.get("group", 1)
        given = {
            "input": [source],
            "weights": [
                self.const(
                    "w", first, kernel[1], kernel[0], last, point=weights, axis=-1 if deep else 0
                )
            ],
        }
        if bias is not None:
            given["bias"] = [self.const("b", outputs, point=bias)]
        values = {
            "kernel": list(kernel), "stride": list(stride), "pad": list(pad), "pad_mode": "FLOOR",
            **attrs,
        }  # fmt: skip
        self.graph.add("op", kind, (1, size[1], size[0], outputs), given, values)
        return self.finish("op", point, act, **({"alpha": alpha} if act == "leaky-relu" else {}))

    def pooled(
        self, kind: str, source: str, kernel: Pair, stride: Pair = (1, 1),
        pad: tuple[int, int, int, int] = (0, 0, 0, 0), point: int = 5, **attrs,
    ) -> str:  # fmt: skip
        """Add a pool called ``op`` and its ``fix``."""
        _, height, width, channels = self.graph[source].shape
        rows = (height + pad[2] + pad[3] - kernel[1]) // stride[1] + 1
        columns = (width + pad[0] + pad[1] - kernel[0]) // stride[0] + 1
        values = {
            "kernel": list(kernel), "stride": list(stride), "pad": list(pad), "pad_mode": "FLOOR",
            **attrs,
        }  # fmt: skip
        self.op("op", kind, (rows, columns, channels), [source], **values)
        return self.fix("op", point)

    def alone(self, kind: str, source: str, point: int, shape: tuple | None = None, **attrs) -> str:
        """Add an op of one input called ``op`` and its ``fix``."""
        self.op("op", kind, shape or self.graph[source].shape[1:], [source], **attrs)
        return self.fix("op", point)


@dataclasses.dataclass(frozen=True)
class Case:
    """A limit, and how to draw a graph for it."""

    name: str
    """Of the constraint, or what legalization refuses."""
    draw: Callable[[Drawing], str]
    """Returns the output."""
    text: str
    """Part of the reason beyond the limit."""
    target: Target
    beside: tuple[str, ...]
    """Further ops that are on the CPU for the same reason."""
    exact: bool
    """Results are those of float ops, because the DPU's have no meaning beyond the limit."""
    runs: bool
    """Beyond the limit it has results."""

    def explains(self, reason: str) -> bool:
        """Tell whether a reason is the one of this case, with what would lift it and the code."""
        end = " would lift it"
        for constraint in CONSTRAINTS:
            if constraint.name == self.name:
                end = f"; {constraint.lift} would lift it ({constraint.code})"
                return self.text in reason and reason.endswith(end)
        return self.text in reason and (end in reason or "lifts it" in reason)


CASES: list[Case] = []


def limit(
    name: str, text: str, *, target: str = "B64", beside: tuple[str, ...] = (),
    exact: bool = False, runs: bool = True, **changes,
) -> Callable[[Callable[[Drawing], str]], Callable[[Drawing], str]]:  # fmt: skip
    """Register a drawing for the limit ``name``; ``changes`` are those of the target."""
    chosen = dataclasses.replace(Target.from_name(target), **changes)

    def register(draw: Callable[[Drawing], str]) -> Callable[[Drawing], str]:
        CASES.append(Case(name, draw, text, chosen, beside, exact, runs))
        return draw

    return register


def balanced(taps: int, point: int, weights: int) -> int:
    """Return a fix point for the sum of so many products, which then is rarely saturated."""
    return point + weights - round(math.log2(92 * math.sqrt(taps)))
