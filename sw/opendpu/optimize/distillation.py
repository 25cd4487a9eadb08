# SPDX-License-Identifier: Apache-2.0
"""What subnetworks learn from their teacher: divergences between soft results.

The guide says adaptive soft KD loss and names AlphaNet (Wang et al., arXiv:2102.07954), whose
equations 5 to 8 are here.
"""

import torch
from torch import nn


class SoftTargetLoss(nn.Module):
    """Cross entropy of the student's classes with the teacher's, at a temperature."""

    def __init__(self, temperature: float = 1.0) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, output: torch.Tensor, soft_logits: torch.Tensor) -> torch.Tensor:
        """Return the mean over samples; classes are axis 1."""
        wanted = torch.softmax(soft_logits / self.temperature, 1)
        found = torch.log_softmax(output / self.temperature, 1)
        return -(wanted * found).sum(1).mean() * self.temperature**2


class AdaptiveSoftKDLoss(nn.Module):
    """The larger of two alpha divergences, sample by sample.

    A negative alpha punishes a student that is sure where its teacher is not, a positive one the
    opposite. Ratios of probabilities are clipped, so that single classes do not rule the gradient.

    Parameters
    ----------
    alpha_min, alpha_max
        The two alphas; 0 and 1 are not among them but at the limit.
    clip
        Largest ratio to the power of alpha.
    """

    def __init__(self, alpha_min: float = -1.0, alpha_max: float = 1.0, clip: float = 5.0) -> None:
        super().__init__()
        self.alpha_min, self.alpha_max, self.clip = alpha_min, alpha_max, clip

    def forward(self, output: torch.Tensor, soft_logits: torch.Tensor) -> torch.Tensor:
        """Return the mean over samples; classes are axis 1."""
        log_q = torch.log_softmax(output, 1)
        log_p = torch.log_softmax(soft_logits.detach(), 1)
        low, low_step = self._divergence(log_p, log_q, self.alpha_min)
        high, high_step = self._divergence(log_p, log_q, self.alpha_max)
        larger = torch.where(low > high, low_step, high_step)
        size = torch.maximum(low, high)
        # the value is that of the divergence, the gradient that with clipped ratios
        return (size.detach() + larger - larger.detach()).mean()

    def _divergence(
        self, log_p: torch.Tensor, log_q: torch.Tensor, alpha: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the divergence of each sample, and what has its gradient, clipped."""
        q, ratio = log_q.detach().exp(), log_p - log_q.detach()
        if abs(alpha - 1) < 1e-3:
            value = (log_p.exp() * ratio).sum(1)
        elif abs(alpha) < 1e-3:
            value = -(q * ratio).sum(1)
            return value, (q * (1 - ratio) * log_q).sum(1)
        else:
            value = (q * ((alpha * ratio).exp() - 1)).sum(1) / (alpha * (alpha - 1))
        weight = (alpha * ratio).exp().clamp(max=self.clip)
        return value, -(q * weight * log_q).sum(1) / alpha
