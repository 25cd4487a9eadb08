# SPDX-License-Identifier: Apache-2.0
"""Trains small networks and says how good they are, for ``opendpu optimize``."""

from collections.abc import Callable

import torch
from torch import nn

from opendpu.optimize.labelled import Part

BATCH = 64
WARMUP = 0.2
"""Part of the steps in which the learning rate rises."""
DECAY = 1e-3


def train(
    model: nn.Module,
    part: Part,
    *,
    epochs: int,
    rate: float,
    seed: int = 0,
    show: Callable[[str], None] = lambda text: None,
) -> nn.Module:
    """Train a network in place with AdamW and one cycle of the learning rate; return it.

    Integer labels mean cross entropy, others the mean squared error.
    """
    samples, labels = part
    if not epochs:
        return model.eval()
    classes = not labels.is_floating_point()
    loss_of = nn.functional.cross_entropy if classes else nn.functional.mse_loss
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, epochs=epochs, steps_per_epoch=-(-len(samples) // BATCH), pct_start=WARMUP
    )
    model.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for epoch in range(epochs):
            order = torch.randperm(len(samples), generator=generator)
            for chosen in torch.split(order, BATCH):
                optimizer.zero_grad()
                if len(chosen) > 1 or len(samples) == 1:  # a normalization needs two
                    torch.autograd.backward(loss_of(model(samples[chosen]), labels[chosen]))
                    optimizer.step()
                schedule.step()
            show(f"training: {epoch + 1} of {epochs} epochs")
    return model.eval()


def score(model: nn.Module, part: Part) -> float:
    """Return the part of samples that are recognized, or the negative mean squared error."""
    return _judged(model, part, lambda found, labels: (found.argmax(1) == labels).float().mean())


def likelihood(model: nn.Module, part: Part) -> float:
    """Return the mean logarithm of the likelihood of the labels, or the negative squared error.

    It tells more than :func:`score` of networks that recognize nearly the same samples.
    """
    return _judged(model, part, lambda found, labels: -nn.functional.cross_entropy(found, labels))


def _judged(
    model: nn.Module, part: Part, of_classes: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> float:
    """Return what is said of results, given classes; of numbers, the negative squared error."""
    samples, labels = part
    model.eval()
    with torch.no_grad():
        found = torch.cat([model(some) for some in torch.split(samples, 4 * BATCH)])
        if labels.is_floating_point():
            return -float(nn.functional.mse_loss(found, labels))
        return float(of_classes(found, labels))
