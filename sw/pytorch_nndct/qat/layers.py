# SPDX-License-Identifier: Apache-2.0
"""Layers with a folded batch normalization and rounded weights, to be trained."""

from typing import Any

import torch
from torch import nn

from opendpu.quantize import TensorSpec
from opendpu.quantize.scales.grid import best_fix_point, rounded
from opendpu.quantize.scales.template import template_of
from pytorch_nndct.qat.threshold import TrainedThreshold

Layer = (nn.Conv1d, nn.Conv2d, nn.Linear, nn.ConvTranspose1d, nn.ConvTranspose2d)
"""Modules of PyTorch whose weights are trained."""
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d)


class QuantizedLayer(nn.Module):
    """A layer, and the batch normalization behind it, computed as the DPU computes them.

    Weights are those that deployment has: multiplied with ``gamma / sqrt(variance + eps)``, with
    the running statistics, then rounded. In training mode the statistics follow the data, until
    :meth:`freeze_bn`, or while the normalization itself is in evaluation mode, by which scripts
    freeze it; that takes a second, float pass of the layer, without gradients.

    Parameters
    ----------
    layer
        The float layer; its parameters are trained.
    norm
        The batch normalization behind it.
    bits
        Width of the weights.
    bias
        How biases are rounded, as deployment does: there is no threshold to train. None: not.
    """

    layer: Any
    norm: Any

    def __init__(
        self, layer: nn.Module, norm: nn.Module | None, bits: int, bias: TensorSpec | None = None
    ) -> None:
        super().__init__()
        self._bias = bias
        self.layer = layer
        self.norm = norm
        self.weight_quantizer = TrainedThreshold(bits)
        self.frozen = norm is None

    def freeze_bn(self) -> None:
        """Keep the running statistics as they are from now on."""
        self.frozen = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the result of the layer, before its rounding."""
        if self.training and not self.frozen and self.norm.training:
            return self._following(x)
        weight, bias = self.folded()
        return self._computed(x, self.weight_quantizer(weight), self._rounded(bias))

    def _rounded(self, bias: torch.Tensor | None) -> torch.Tensor | None:
        """Return a bias on the grid that deployment chooses for it, with its own gradient."""
        if bias is None or self._bias is None:
            return bias
        values = bias.detach().cpu().numpy()
        template = template_of(self._bias)
        point = best_fix_point(values, method=self._bias.method, template=template)
        found = torch.from_numpy(rounded(values, point, template)).to(bias.device)
        return bias + (found - bias).detach()

    def folded(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return weights and bias that do what layer and normalization do."""
        weight, bias = self.layer.weight, self.layer.bias
        norm = self.norm
        if norm is None:
            return weight, bias
        inverse = torch.rsqrt(norm.running_var + norm.eps)
        factor = inverse if norm.weight is None else norm.weight * inverse
        shift = (0 if bias is None else bias) - norm.running_mean
        offset = shift * factor + (0 if norm.bias is None else norm.bias)
        return weight * self._spread(factor), offset

    def _spread(self, factor: torch.Tensor) -> torch.Tensor:
        """Return a factor for each output channel in the shape of the weights."""
        weight = self.layer.weight
        rest = (1,) * (weight.ndim - 2)
        if not isinstance(self.layer, _TRANSPOSED):
            return factor.view(-1, 1, *rest)
        groups = self.layer.groups
        each = factor.view(groups, 1, -1).expand(groups, weight.shape[0] // groups, -1)
        return each.reshape(weight.shape[0], weight.shape[1], *rest)

    def _computed(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        layer = self.layer
        if isinstance(layer, nn.Linear):
            return nn.functional.linear(x, weight, bias)
        if isinstance(layer, _TRANSPOSED):
            function = getattr(torch, f"conv_transpose{weight.ndim - 2}d")
            return function(x, weight, bias, layer.stride, layer.padding, layer.output_padding,
                            layer.groups, layer.dilation)  # fmt: skip
        return layer._conv_forward(x, weight, bias)

    def _following(self, x: torch.Tensor) -> torch.Tensor:
        """Return the result with the statistics of a batch; let the running ones follow.

        Weights are rounded with the running statistics, as they are deployed; the result is scaled
        to those of the batch behind that (Krishnamoorthi, arXiv 1806.08342, 3.2.2), so that
        training has the gradients and the stability of a batch normalization.
        """
        norm = self.norm
        made = self._computed(x, self.layer.weight, self.layer.bias)
        with torch.no_grad():
            norm(made)
        axes = [axis for axis in range(made.ndim) if axis != 1]
        variance, mean = torch.var_mean(made, axes, correction=0)
        weight, _ = self.folded()
        made = self._computed(x, self.weight_quantizer(weight), None)
        inverse = torch.rsqrt(variance + norm.eps)
        ratio = torch.sqrt(norm.running_var + norm.eps) * inverse
        gain = inverse if norm.weight is None else norm.weight * inverse
        bias = 0 if self.layer.bias is None else self.layer.bias
        shift = (bias - mean) * gain + (0 if norm.bias is None else norm.bias)
        spread = (-1, *(1,) * (made.ndim - 2))
        return made * ratio.view(spread) + shift.view(spread)
