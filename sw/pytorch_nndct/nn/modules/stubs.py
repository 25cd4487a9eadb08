# SPDX-License-Identifier: Apache-2.0
"""Begin and end of what is quantized."""

import torch

from opendpu.frontend.pytorch.markers import mark


class QuantStub(torch.nn.Module):
    """Begin of a part to be quantized; computes nothing.

    In a module with stubs, only what is between a QuantStub and a :class:`DeQuantStub` is
    quantized; there may be several pairs.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the same values."""
        return mark("quant_stub", x)


class DeQuantStub(torch.nn.Module):
    """End of a part to be quantized; computes nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the same values."""
        return mark("dequant_stub", x)
