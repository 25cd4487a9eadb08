# SPDX-License-Identifier: Apache-2.0
"""What finetuning and training win back with few bits: accuracy on scikit-learn's digits, as JSON.

A small convolutional network is trained in float on two thirds of the 1797 images; accuracy is that
of the last third, which nothing else looks at. ``ptq`` is post-training quantization with 100
training images, ``finetuned`` that with AdaQuant, ``qat`` training with rounding; all three are
computed as the compiled program computes them.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn

from pytorch_nndct import QatProcessor
from pytorch_nndct.apis import torch_quantizer
from pytorch_nndct.nn import DeQuantStub, QuantStub, functional

CALIBRATION = 100
BATCH = 64


class Net(nn.Module):
    """Three convolutions, the last two with a way around, and a classifier."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.stem = nn.Sequential(
            nn.Conv2d(1, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width),
        )  # fmt: skip
        self.add, self.relu = functional.Add(), nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(16 * width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of ten classes."""
        x = self.stem(self.quant(x))
        x = self.pool(self.relu(self.add(self.body(x), x)))
        return self.dequant(self.head(torch.flatten(x, 1)))


def train(
    model: nn.Module, images: torch.Tensor, labels: torch.Tensor, optimizer: Any, epochs: int
) -> None:
    """Train a classifier, with the learning rate going down to zero."""
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    model.train()
    for _ in range(epochs):
        for part in torch.randperm(len(images)).split(BATCH):
            loss = nn.functional.cross_entropy(model(images[part]), labels[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    model.eval()


def accuracy(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the percentage of images that are recognized."""
    with torch.no_grad():
        return round(100 * float((model(images).argmax(1) == labels).float().mean()), 2)


def measured(bits: int, epochs: int, seed: int) -> dict[str, object]:
    """Return accuracies, and the seconds that each took, for one draw."""
    torch.manual_seed(seed)
    data = load_digits()
    images = torch.from_numpy(data.images).float()[:, None] / 16
    labels = torch.from_numpy(data.target)
    order = torch.randperm(len(images))
    third = len(images) // 3
    test, rest = order[:third], order[third:]
    model = Net()
    train(model, images[rest], labels[rest], torch.optim.Adam(model.parameters(), 5e-3), epochs)
    shown = images[rest[:CALIBRATION]]
    seconds: dict[str, float] = {}

    def timed(name: str, call: Callable[[], nn.Module]) -> float:
        start = time.perf_counter()
        found = call()
        seconds[name] = round(time.perf_counter() - start, 1)
        return accuracy(found, images[test], labels[test])

    def post_training(finetune: bool) -> nn.Module:
        options: dict[str, Any] = {"device": "cpu", "bitwidth": bits}
        quantizer = torch_quantizer("calib", model, shown, **options)
        if finetune:
            quantizer.fast_finetune(quantizer.quant_model, (shown,))
        quantizer.quant_model(shown)
        quantizer.export_quant_config()
        tested = torch_quantizer("test", model, shown, **options)
        if finetune:
            tested.load_ft_param()
        return tested.quant_model

    def trained() -> nn.Module:
        processor = QatProcessor(model, shown, bitwidth=bits)
        quantized = processor.trainable_model()
        groups = [
            {"params": list(quantized.quantizer_parameters()), "lr": 1e-2},
            {"params": list(quantized.non_quantizer_parameters()), "lr": 2e-3},
        ]
        train(quantized, images[rest], labels[rest], torch.optim.Adam(groups), epochs)
        return processor.to_deployable(quantized)

    return {
        "seed": seed,
        "float": accuracy(model, images[test], labels[test]),
        "ptq": timed("ptq", lambda: post_training(False)),
        "finetuned": timed("finetuned", lambda: post_training(True)),
        "qat": timed("qat", trained),
        "seconds": seconds,
    }


def main() -> None:
    """Print the measurements as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--bits", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    draws = []
    before = os.getcwd()  # noqa: PTH109 - to go back there
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        os.chdir(folder)
        try:
            for seed in range(arguments.seeds):
                draws.append(measured(arguments.bits, arguments.epochs, seed))
        finally:
            os.chdir(before)
    print(json.dumps({"bits": arguments.bits, "epochs": arguments.epochs, "draws": draws}, indent=2))


if __name__ == "__main__":
    main()
