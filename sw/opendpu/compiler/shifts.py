# SPDX-License-Identifier: Apache-2.0
"""The shifts of an op with weights, by output channel, and as the fields of its instructions."""

import dataclasses

import numpy as np
import numpy.typing as npt

from opendpu.compiler.fixed import point_of
from opendpu.ir import Graph, Node
from opendpu_arch.numerics import Int8Array, packed_shifts


@dataclasses.dataclass(frozen=True)
class ChannelShifts:
    """``cut`` = w + i - o and ``bias`` = w + i - b + 1, an int64 each for every output channel.

    Without a bias, its shift is 0.
    """

    cut: npt.NDArray[np.int64]
    bias: npt.NDArray[np.int64]

    @property
    def differ(self) -> bool:
        """Whether channels have shifts of their own."""
        return bool(np.ptp(self.cut) or np.ptp(self.bias))

    def fields(self) -> tuple[int, int, Int8Array | None]:
        """Return ``shift_cut``, ``shift_bias``, and what channels add to them if they differ."""
        cut, bias = int(self.cut.min()), int(self.bias.min())
        if not self.differ:
            return cut, bias, None
        return cut, bias, packed_shifts(self.cut - cut, self.bias - bias)


def shifts_of(node: Node, graph: Graph) -> ChannelShifts:
    """Return the shifts of an op with weights."""

    def points(arg: str) -> npt.NDArray[np.int64]:
        (name,) = node.inputs[arg]
        return np.array(graph[name].fix_points, np.int64)

    product = np.broadcast_to(
        points("weights") + point_of(graph[node.inputs["input"][0]]), node.shape[-1:]
    )
    bias = np.zeros_like(product)
    if node.inputs.get("bias"):
        bias = product - points("bias") + 1
    return ChannelShifts(product - point_of(node), bias)
