# SPDX-License-Identifier: Apache-2.0
"""Products of two feature maps on the CONV engine."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from opendpu.compiler.layers.array import ArrayLayer
from opendpu.compiler.layers.feature import Int8Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProductLayer(ArrayLayer):
    """Every pixel of ``source`` times every pixel of ``other``: a 1x1 convolution.

    The pixels of ``other`` are its weights, one for each output channel: LOAD brings them from DDR
    to the weight banks as they are. Pixels of both have ``inputs`` channels; ``other`` has
    ``outputs`` pixels at one distance in DDR.
    """

    IN_CASCADES: ClassVar[bool] = False
    LOADS_AHEAD: ClassVar[bool] = True

    other: str
    inputs: int
    outputs: int
    epilogue: ClassVar[None] = None

    @property
    def operands(self) -> tuple[str, ...]:
        """Both factors, the one in the image banks first."""
        return (self.source, self.other)

    @property
    def label(self) -> str:
        """A product."""
        return "product"

    @property
    def weights_shape(self) -> tuple[int, int, int, int]:
        """Output channels, kernel rows and columns, input channels."""
        return self.outputs, 1, 1, self.inputs

    @property
    def constants(self) -> Mapping[str, Int8Array]:
        """Bias and table; weights are no constants here."""
        return {**self.per_channel, **self.tables}

    def reads_from_ddr(self, name: str) -> bool:
        """Tell that weights never come from the image banks."""
        return name == self.other
