# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions, poolings and activations on the misc engine."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu.compiler.layers.cost import alu_cycles, transfer_cycles
from opendpu.compiler.layers.feature import Int8Array, Window
from opendpu.compiler.layers.layer import Features, WeightWords, channel_groups
from opendpu.compiler.layers.misc import MiscLayer, window_rules
from opendpu.compiler.layers.requantization import Requantization, bias_words
from opendpu_arch.isa import ActType, AluMode
from opendpu_arch.target import Target


@dataclasses.dataclass(frozen=True, kw_only=True)
class AluLayer(MiscLayer):
    """Depthwise convolution, pooling or activation; ``weights`` HWC or none."""

    source: str
    window: Window
    mode: AluMode
    weights: Int8Array | None = None
    bias: npt.NDArray[Any] | None = None
    shifts: Int8Array | None = None
    shift_cut: int = 0
    shift_bias: int = 0
    multi_factor: int = 0
    shift_prelu_p: int = 0
    shift_prelu_n: int = 0
    act_type: ActType = ActType.NONE
    requantization: Requantization | None = None
    """How results are made by records of the extension ``scaled``; ``bias`` has then what
    :data:`CHANNEL` says of each channel."""

    @property
    def operands(self) -> tuple[str, ...]:
        """Its input."""
        return (self.source,)

    @property
    def label(self) -> str:
        """What the ALU does."""
        return self.mode.name.lower()

    @property
    def constants(self) -> Mapping[str, Int8Array]:
        """Bias and shifts or records, weights and table, as far as there are any."""
        weights = {} if self.weights is None else {"weights": self.weights}
        own = self.per_channel
        if self.requantization is not None and self.bias is not None:
            sums = 0 if self.weights is None else self.weights.sum(axis=(0, 1), dtype=np.int64)
            own = {"bias": self.requantization.records(self.bias, sums)}
        return {**own, **weights, **self.tables}

    def sliding_window(self, name: str) -> Window | None:
        """Return the window over the input."""
        return self.window if name == self.source else None

    def instruction_cycles(self, columns: int, groups: int, rows_per_bank: int = 1) -> int:
        """Return the cycles of an ALU."""
        interval = 1 if self.requantization is None else self.requantization.interval
        return alu_cycles(columns, groups, self.window, max(rows_per_bank, interval))

    def weight_words(self, features: Features, target: Target) -> WeightWords:
        """Return the words of weights and biases."""
        groups = channel_groups(features[self.output], target)
        taps = self.window.kernel_h * self.window.kernel_w
        return WeightWords(
            alu=taps * groups if self.weights is not None else 0,
            bias=bias_words(groups, self.requantization),
        )

    def weight_cycles(self, target: Target) -> int:
        """Return the cycles to load the weights."""
        if self.weights is None:
            return 0
        rows, columns, channels = self.weights.shape
        return transfer_cycles(rows * columns, channels, channels, target.channel_parallel)

    def broken_rules(self, features: Features) -> Iterator[tuple[str, str]]:
        """Check padding."""
        yield from window_rules(self.window)
