# SPDX-License-Identifier: Apache-2.0
"""Data that small networks can be trained with here, split into three parts.

``train`` is what networks learn from and normalizations are calibrated with; ``choice`` is what
analyses and searches evaluate on; ``test`` is what accuracy is told of, and nothing else looks at.
"""

import dataclasses
import math
import pathlib

import numpy as np
import torch
from sklearn.datasets import load_digits

Part = tuple[torch.Tensor, torch.Tensor]
ORIENTATIONS, FREQUENCIES = 8, (0.6, 1.0)
SIZE, NOISE = 16, 3.5
"""Pixels of a side and standard deviation of the noise of made-up textures."""


@dataclasses.dataclass(frozen=True)
class Data:
    """Samples with labels, in three parts."""

    name: str
    classes: int
    train: Part
    choice: Part
    test: Part

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample with a batch of one."""
        return (1, *self.train[0].shape[1:])


def digits() -> Data:
    """Return scikit-learn's 1797 handwritten digits: 1000, 300 and 497 of them."""
    found = load_digits()
    images = torch.from_numpy(found.images).float()[:, None] / 16
    return _split("digits", 10, images, torch.from_numpy(found.target), (1000, 300))


def keywords(models: pathlib.Path) -> Data:
    """Return the 1000 keyword clips of MLPerf Tiny: 600, 150 and 250 of them."""
    with np.load(models / "mlperf_tiny" / "kws01.npz") as file:
        clips = (file["x"].astype(np.float32) - file["zero_point"]) * file["scale"]
        labels = torch.from_numpy(file["y"].astype(np.int64))
    clips = torch.from_numpy(clips.astype(np.float32)).permute(0, 3, 1, 2).contiguous()
    clips = (clips - clips.mean()) / clips.std()
    return _split("keywords", 12, clips, labels, (600, 150))


def textures(count: int = 7000, noise: float = NOISE) -> Data:
    """Return gratings in noise, made up: 8 orientations of 2 frequencies, any phase and colour.

    ``noise`` is its standard deviation.
    """
    generator = torch.Generator().manual_seed(0)
    classes = ORIENTATIONS * len(FREQUENCIES)
    labels = torch.arange(count) % classes
    angle = (labels % ORIENTATIONS) * math.pi / ORIENTATIONS
    frequency = torch.tensor(FREQUENCIES)[labels // ORIENTATIONS]
    y, x = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    along = x[None] * angle.cos()[:, None, None] + y[None] * angle.sin()[:, None, None]
    phase = torch.rand(count, generator=generator) * 2 * math.pi
    wave = torch.sin(along * frequency[:, None, None] * math.pi / 2 + phase[:, None, None])
    colour = torch.rand(count, 3, generator=generator)[:, :, None, None] + 0.5
    added = torch.randn(count, 3, SIZE, SIZE, generator=generator) * noise
    return _split("textures", classes, wave[:, None] * colour + added, labels, (2000, 1000))


def _split(
    name: str, classes: int, samples: torch.Tensor, labels: torch.Tensor, sizes: tuple[int, int]
) -> Data:
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(1))
    cuts = (order[: sizes[0]], order[sizes[0] : sum(sizes)], order[sum(sizes) :])
    train, choice, test = ((samples[part], labels[part]) for part in cuts)
    return Data(name, classes, train, choice, test)
