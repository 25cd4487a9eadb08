# SPDX-License-Identifier: Apache-2.0
"""Weights of layers on integers: what their sums can be, and how ONNX's operators take them."""

import dataclasses
import functools
import itertools

import numpy as np
import numpy.typing as npt

from opendpu.ir import Array, Node
from opendpu.ops.fixed.exact import EXACT
from opendpu.ops.formats import along
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu_arch.errors import UnsupportedError

Wide = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Sums:
    """What sums of some of a layer's products can be at least and at most, by output channel."""

    low: Wide
    high: Wide

    def exact(self, offset: Array | float = 0.0) -> bool:
        """Tell whether float32 has every sum of some products and the offset."""
        high = self.high + np.maximum(offset, 0)
        low = self.low + np.minimum(offset, 0)
        return bool(max(high.max(), -low.min()) <= EXACT)


@dataclasses.dataclass(frozen=True)
class Weights:
    """The weights of a layer.

    Parameters
    ----------
    node
        The layer.
    values
        Integers: OHWI, or MHWC of a depthwise layer.
    group
        Groups of channels that do not meet; every channel is one in a depthwise layer.
    factor
        A power of two for each output channel, that its integers are times.
    operand, reach
        ONNX value (NCHW) that they are multiplied with and its limits, where it is not the input
        itself.
    """

    node: Node
    values: Array
    group: int
    factor: Wide
    operand: str = ""
    reach: tuple[int, int] | None = None

    @classmethod
    def of(cls, builder: OnnxBuilder, node: Node, factor: Wide) -> "Weights":
        """Return the weights of a layer; UnsupportedError if they are no constants."""
        (name,) = node.inputs["weights"]
        values = builder.graph[name].value
        if values is None:
            raise UnsupportedError(
                f"op {node.name!r} ({node.kind}) has weights that are computed, but must have "
                "constants"
            )
        depthwise = "depthwise" in node.kind
        group = values.shape[3] if depthwise else int(node.attrs.get("group") or 1)
        found = builder.graph[name].type.quantization  # files leave out powers of two around zero
        if found is not None and any(found.zero_point):
            values = values.astype(np.int32) - along(found.zero_point, found, values.ndim, np.int32)
        return cls(node, values, group, factor)

    @property
    def depthwise(self) -> bool:
        """Whether every channel has its own kernel."""
        return "depthwise" in self.node.kind

    @property
    def transposed(self) -> bool:
        """Whether inputs are spread over the result."""
        return self.node.kind.startswith("transposed")

    @property
    def channels(self) -> int:
        """Input channels of a group, as the last axis has them."""
        return int(self.values.shape[3])

    @functools.cached_property
    def _signed_sums(self) -> tuple[Wide, Wide]:
        """Sums over the kernel of all positive and of all negative weights, without sign."""
        positive = np.maximum(self.values, 0).sum(axis=(1, 2), dtype=np.float64)
        negative = positive - self.values.sum(axis=(1, 2), dtype=np.float64)
        by_output = self.factor.reshape(self.channels, -1).T if self.depthwise else (
            self.factor[:, None]
        )  # fmt: skip
        return positive * by_output, negative * by_output

    def sums(self, limits: tuple[int, int], start: int = 0, stop: int | None = None) -> Sums:
        """Return what sums of some products can be, for inputs in a range.

        ``start`` and ``stop`` choose input channels of every group; a depthwise layer has one.
        """
        up, down = max(limits[1], 0), max(-limits[0], 0)
        positive, negative = self._signed_sums
        if not self.depthwise:
            part = slice(start, stop)
            positive, negative = positive[:, part].sum(axis=1), negative[:, part].sum(axis=1)
        high = (up * positive + down * negative).T.ravel()
        low = -(down * positive + up * negative).T.ravel()
        return Sums(low, high)

    def parts(self, limits: tuple[int, int]) -> list[tuple[int, int]]:
        """Return ranges of input channels of a group whose sums float32 has, few of them.

        Raises
        ------
        UnsupportedError
            One channel's sums are too large.
        """
        for count in range(1, 2 if self.depthwise else self.channels + 1):
            ends = [self.channels * n // count for n in range(count + 1)]
            ranges = list(itertools.pairwise(ends))
            if all(self.sums(limits, *part).exact() for part in ranges):
                return ranges
        raise UnsupportedError(
            f"op {self.node.name!r} ({self.node.kind}) has a kernel of "
            f"{self.values.shape[1]}x{self.values.shape[2]}, whose sums are too large for float32"
        )

    def tensor(self, scale: Wide, start: int, stop: int) -> npt.NDArray[np.float32]:
        """Return those of some input channels as ONNX has them.

        ``scale`` is a power of two for each output channel, that they are times.
        """
        values = self.values[..., start:stop].astype(np.float32)
        factor = (self.factor * scale).astype(np.float32)
        if self.depthwise:
            values *= factor.reshape(self.channels, -1).T[:, None, None, :]
        else:
            values *= factor[:, None, None, None]
        if self.transposed:
            values = values[:, ::-1, ::-1].transpose(3, 0, 1, 2)
            if self.depthwise or self.group == 1:
                return values
            inputs, outputs, *kernel = values.shape
            split = values.reshape(inputs, self.group, outputs // self.group, *kernel)
            return split.swapaxes(0, 1).reshape(inputs * self.group, -1, *kernel)
        if self.depthwise:
            return values.transpose(3, 0, 1, 2).reshape(-1, 1, *values.shape[1:3])
        return values.transpose(0, 3, 1, 2)
