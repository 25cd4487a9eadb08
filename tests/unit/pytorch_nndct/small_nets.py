# SPDX-License-Identifier: Apache-2.0
"""Small networks, and what a compiled program makes of images."""

import contextlib
import warnings
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

from opendpu import api
from opendpu_arch.target import Target

TARGET = "DPUCZDX8G_ISA1_B512"


class TwoHeads(nn.Module):
    """Two inputs, nested results, one of them no tensor; a softmax that the CPU computes."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Conv2d(3, 4, 3, padding=1)
        self.right = nn.Conv2d(3, 4, 1)
        self.head = nn.Linear(4, 5)
        self.scale = 2

    def forward(self, image: torch.Tensor, other: torch.Tensor) -> dict[str, object]:
        x = torch.relu(self.left(image) + self.right(other))
        return {"map": x, "classes": [torch.softmax(self.head(x.mean((2, 3))), -1)], "scale": 2}


class Joining(nn.Module):
    """Mixes the samples of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc(x)
        return x - x.mean(0, keepdim=True)


def loaded(path: str) -> torch.jit.ScriptModule:
    """Return a TorchScript module out of a file; PyTorch 2 calls that deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.load(path)


def compiled(path: object, images: torch.Tensor) -> torch.Tensor:
    """Compile a quantized ``.xmodel`` of one image; return what the functional simulator gives."""
    api.compile_xmodel(str(path), target=Target.from_name(TARGET), output="compiled.xmodel")
    feeds = images.permute(0, 2, 3, 1).contiguous().numpy()
    found = []
    with api.create_runner("compiled.xmodel", device="iss") as runner:
        (given,), (tensor,) = runner.get_input_tensors(), runner.get_output_tensors()
        for image in feeds:
            found.append(runner.run({given.name: np.ascontiguousarray(image[None])})[tensor.name])
    result = torch.from_numpy(np.concatenate(found))
    if result.dtype == torch.int8:
        result = result * 2.0 ** -tensor.get_attr("fix_point")
    return (result.permute(0, 3, 1, 2) if result.ndim == 4 else result).float()


def ratio(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Return signal to noise, dB."""
    return float(10 * torch.log10(wanted.square().sum() / (found - wanted).square().sum()))


@contextlib.contextmanager
def own_arithmetic(model: torch.nn.Module) -> Iterator[None]:
    """Let a model that is trained compute in evaluation mode with PyTorch, as it trains."""
    evaluation, model._evaluation = model._evaluation, None
    try:
        yield
    finally:
        model._evaluation = evaluation
