# SPDX-License-Identifier: Apache-2.0
"""Convolutions on the CONV engine, with the element-wise operation that may follow on chip."""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from opendpu.compiler.layers.array import KernelLayer
from opendpu.compiler.layers.cost import misc_cycles
from opendpu.compiler.layers.eltwise import EltwiseLayer
from opendpu.compiler.layers.layer import Features, StripeCycles
from opendpu.compiler.layers.misc import window_rules
from opendpu_arch.target import Target

TILE_SHARE = 4
"""A convolution's results wait for their epilogue in at most this part of a bank."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Epilogue:
    """Element-wise operation on the results of a convolution while they are still on chip."""

    layer: EltwiseLayer
    tile: str
    """The convolution's own result, one of the operands; it is nowhere whole."""

    @property
    def others(self) -> tuple[str, ...]:
        """The other operands."""
        return tuple(name for name in self.layer.sources if name != self.tile)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvLayer(KernelLayer):
    """Convolution whose input rows lie in the banks as in the feature map.

    ``output`` is what leaves the layer: the result of the epilogue where there is one.
    """

    WHOLE_KERNEL: ClassVar[bool] = True
    """Every output channel meets ``weights`` in ``window``, so that passes may change both."""

    epilogue: Epilogue | None = None

    @property
    def operands(self) -> tuple[str, ...]:
        """Its input, then the other operands of the epilogue."""
        return (self.source, *(self.epilogue.others if self.epilogue else ()))

    @property
    def label(self) -> str:
        """Conv, and what the epilogue does."""
        name = "depthwise conv" if self.depthwise else "conv"
        return name if self.epilogue is None else f"{name}, {self.epilogue.layer.kind.name}"

    @property
    def inner(self) -> tuple[EltwiseLayer, ...]:
        """The layer of the epilogue."""
        return () if self.epilogue is None else (self.epilogue.layer,)

    @property
    def intermediate(self) -> str | None:
        """The result of the convolution, where an epilogue takes it up."""
        return None if self.epilogue is None else self.epilogue.tile

    @property
    def ends_in_elew(self) -> bool:
        """Whether there is an epilogue."""
        return self.epilogue is not None

    @property
    def in_place_operands(self) -> tuple[str, ...]:
        """The other operands of the epilogue, unless the convolution reads them too."""
        return tuple(name for name in self.operands[1:] if name != self.source)

    def groups_a_pass(self, features: Features, target: Target, columns: int) -> int:
        """Return the blocks that are made before the epilogue takes them."""
        blocks = self.blocks(features, target)
        if self.epilogue is None:
            return blocks
        most = max(1, target.bank_depth // TILE_SHARE // (2 * columns))
        return -(-blocks // -(-blocks // most))

    def stripe_cycles(
        self, features: Features, target: Target, *, rows: int, columns: int, groups: int,
        rows_per_bank: int,
    ) -> StripeCycles:  # fmt: skip
        """Return the cycles of all blocks, and of the epilogue behind every pass."""
        alone = super().stripe_cycles(
            features, target, rows=rows, columns=columns, groups=groups,
            rows_per_bank=rows_per_bank,
        )  # fmt: skip
        if self.epilogue is None:
            return alone
        times = -(-rows // target.alu_pixel_parallel)
        once = times * misc_cycles(columns, groups, len(self.epilogue.layer.sources))
        return dataclasses.replace(alone, epilogue=alone.passes * once)

    def broken_rules(self, features: Features) -> Iterator[tuple[str, str]]:
        """Check padding, the kernel, and the number of biases."""
        yield from window_rules(self.window)
        yield from super().broken_rules(features)
