# SPDX-License-Identifier: Apache-2.0
"""What ``bench_qat.py`` trains: a float network, images or clips to train with, others to judge."""

import dataclasses
import os
import pathlib

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from sklearn.datasets import load_digits
from torch import nn

from pytorch_nndct.nn import DeQuantStub, QuantStub, functional

BATCH = 64
MODELS = pathlib.Path(os.environ.get("MODELS", "../shared/models")).resolve()
CHANNELS = 64
"""Of the keyword network's layers."""


@dataclasses.dataclass(frozen=True)
class Task:
    """A trained float network and its data; arrays have the samples in front."""

    model: nn.Module
    inputs: torch.Tensor
    labels: torch.Tensor
    test_inputs: torch.Tensor
    test_labels: torch.Tensor
    weight_rate: float
    """Learning rate of weights that suits the network."""
    threshold_rate: float = 1e-2
    """Learning rate of the logarithms of thresholds. Adam moves these by as much each step; where
    there are few steps an epoch, scales that double and halve again cost more than they gain."""
    labels_weight: float = 1.0
    """Of the labels in the loss, next to what the float network says."""
    shift: int = 0
    """Rows by which a sample may be moved, up or down, and stay what it is."""


class DigitsNet(nn.Module):
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
        scores: torch.Tensor = self.dequant(self.head(torch.flatten(x, 1)))
        return scores


class KeywordNet(nn.Module):
    """The DS-CNN of MLPerf Tiny: a convolution, four depthwise-separable ones, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.pad = nn.ZeroPad2d((1, 1, 4, 5))
        layers: list[nn.Module] = [nn.Conv2d(1, CHANNELS, (10, 4), 2), nn.ReLU()]
        for _ in range(4):
            layers += [nn.Conv2d(CHANNELS, CHANNELS, 3, 1, 1, groups=CHANNELS), nn.ReLU(),
                       nn.Conv2d(CHANNELS, CHANNELS, 1), nn.ReLU()]  # fmt: skip
        self.body = nn.Sequential(*layers)
        self.pool = nn.AvgPool2d((25, 5))
        self.head = nn.Linear(CHANNELS, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of twelve keywords."""
        x = self.pool(self.body(self.pad(self.quant(x))))
        scores: torch.Tensor = self.dequant(self.head(torch.flatten(x, 1)))
        return scores


def train_float(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor, epochs: int) -> None:
    """Train a classifier, with the learning rate going down to zero."""
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    model.train()
    for _ in range(epochs):
        for part in torch.split(torch.randperm(len(inputs)), BATCH):
            loss = nn.functional.cross_entropy(model(inputs[part]), labels[part])
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
        schedule.step()
    model.eval()


def digits(seed: int) -> Task:
    """Return scikit-learn's 1797 handwritten digits: two thirds to train, of which the float
    network has its weights too, the last third to judge."""
    torch.manual_seed(seed)
    data = load_digits()
    images = torch.from_numpy(data.images).float()[:, None] / 16
    labels = torch.from_numpy(data.target)
    order = torch.randperm(len(images))
    test, rest = order[: len(images) // 3], order[len(images) // 3 :]
    model = DigitsNet()
    train_float(model, images[rest], labels[rest], 40)
    return Task(model, images[rest], labels[rest], images[test], labels[test], 2e-3)


def keywords(seed: int) -> Task:
    """Return MLPerf Tiny's keyword network and its 1000 clips, none of which it was trained with.

    Halves of them, drawn with ``seed // 2``: an even seed trains with the first and judges by the
    second, the odd one after it does the opposite, so that both together judge by all clips.
    """
    torch.manual_seed(seed)
    model = KeywordNet().eval()
    _load_keywords(model, MODELS / "mlperf_tiny" / "kws_dscnn.onnx")
    stored = np.load(MODELS / "mlperf_tiny" / "kws01.npz")
    clips = (stored["x"].astype(np.float32) - stored["zero_point"]) * stored["scale"]
    inputs = torch.from_numpy(clips.astype(np.float32)).reshape(-1, 1, 49, 10)
    labels = torch.from_numpy(stored["y"].astype(np.int64))
    order = torch.from_numpy(np.random.default_rng(seed // 2).permutation(len(inputs)))
    first, second = order[: len(order) // 2], order[len(order) // 2 :]
    if seed % 2:
        first, second = second, first
    return Task(
        model, inputs[first], labels[first], inputs[second], labels[second], weight_rate=1e-3,
        threshold_rate=1e-3, labels_weight=0.3, shift=2,
    )  # fmt: skip


def _load_keywords(model: KeywordNet, path: pathlib.Path) -> None:
    """Put the weights of the ONNX file into the module: batch normalizations are in them."""
    graph = onnx.load(path).graph
    constants = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    made = {node.output[0]: node for node in graph.node}

    def constant(name: str) -> torch.Tensor:
        if name in constants:
            return torch.from_numpy(constants[name].astype(np.float32))
        source, scale, zero = (constants[n] for n in made[name].input)
        return torch.from_numpy((source.astype(np.float32) - zero) * scale)

    layers = [part for part in model.body if isinstance(part, nn.Conv2d)]
    nodes = [node for node in graph.node if node.op_type == "Conv"]
    with torch.no_grad():
        for layer, node in zip(layers, nodes, strict=True):
            layer.weight.copy_(constant(node.input[1]))
            assert layer.bias is not None
            layer.bias.copy_(constant(node.input[2]))
        product = next(node for node in graph.node if node.op_type == "MatMul")
        total = next(node for node in graph.node if node.op_type == "Add")
        model.head.weight.copy_(constant(product.input[1]).T)
        model.head.bias.copy_(constant(total.input[1]))


TASKS = {"digits": digits, "kws": keywords}
