# SPDX-License-Identifier: Apache-2.0
"""Trains classifiers and says how good they are."""

from typing import Any

import torch
from torch import nn

BATCH = 64
WARMUP = 0.2
"""Part of the steps in which the learning rate rises."""


def train(
    model: nn.Module,
    part: tuple[torch.Tensor, torch.Tensor],
    epochs: int,
    rate: float,
    *,
    fast: bool = False,
) -> nn.Module:
    """Train a classifier with Adam and one cycle of the learning rate; return it.

    ``fast`` computes in bfloat16, channels last, in half the time; parameters stay float32.
    """
    samples, labels = part
    if fast:
        for value in model.parameters():
            if value.dim() == 4:
                value.data = value.data.to(memory_format=torch.channels_last)
    steps = -(-len(samples) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, epochs=epochs, steps_per_epoch=steps, pct_start=WARMUP
    )
    model.train()
    for _ in range(epochs):
        for chosen in torch.randperm(len(samples)).split(BATCH):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=fast):
                output = model(samples[chosen])
            loss = nn.functional.cross_entropy(output.float(), labels[chosen])
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()
    return model.eval()


def accuracy(model: nn.Module, part: tuple[torch.Tensor, torch.Tensor]) -> float:
    """Return the percentage of samples that are recognized."""
    model.eval()
    right = 0
    with torch.no_grad():
        for samples, labels in zip(part[0].split(256), part[1].split(256), strict=True):
            right += int((model(samples).argmax(1) == labels).sum())
    return 100 * right / len(part[1])


def likelihood(model: nn.Module, part: tuple[torch.Tensor, torch.Tensor]) -> float:
    """Return the mean logarithm of the likelihood of the labels: finer than what is recognized."""
    model.eval()
    with torch.no_grad():
        return -float(nn.functional.cross_entropy(model(part[0]), part[1]))


def calibrate(model: nn.Module, part: tuple[torch.Tensor, torch.Tensor]) -> None:
    """Let batch normalizations find their statistics."""
    model.train()
    with torch.no_grad():
        for samples in part[0][:1024].split(128):
            model(samples)


def train_supernet(
    pruner: Any,
    model: nn.Module,
    teacher: nn.Module,
    part: tuple[torch.Tensor, torch.Tensor],
    epochs: int,
    rate: float,
    loss: nn.Module,
) -> None:
    """Train a once-for-all network by the sandwich rule, with its teacher's soft results."""
    samples, labels = part
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    teacher.eval()
    model.train()
    for _ in range(epochs):
        for chosen in torch.randperm(len(samples)).split(BATCH):
            with torch.no_grad():
                soft = teacher(samples[chosen])
            optimizer.zero_grad()
            for subnet in pruner.sandwich(model):
                output = subnet(samples[chosen])
                total = loss(output, soft) + nn.functional.cross_entropy(output, labels[chosen])
                torch.autograd.backward(total)
            nn.utils.clip_grad_value_(model.parameters(), 1.0)
            optimizer.step()
        schedule.step()
