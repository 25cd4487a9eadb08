# SPDX-License-Identifier: Apache-2.0
"""Quantized modules as one operator, where somebody traces the program around them."""

import itertools
import weakref
from typing import Any, Protocol

import torch

from opendpu.frontend.pytorch import Traced
from opendpu.frontend.pytorch.batch import array_of
from pytorch_nndct.program import IntegerNetwork

OPERATOR = "vai.integer_network"


class Quantized(Protocol):
    """A module that computes a quantized network."""

    module: torch.nn.Module
    traced: Traced

    @property
    def network(self) -> IntegerNetwork:
        """The network."""


_models: weakref.WeakValueDictionary[str, Quantized] = weakref.WeakValueDictionary()
_numbers = itertools.count()


def key_of(model: Quantized) -> str:
    """Return a name by which :func:`model_of` finds a module."""
    key = f"{type(model.module).__name__}_{next(_numbers)}"
    _models[key] = model
    return key


def model_of(key: str) -> Quantized:
    """Return the module with a name; KeyError if it is gone."""
    return _models[key]


@torch.library.custom_op("vai::integer_network", mutates_args=())
def integer_network(inputs: list[torch.Tensor], key: str) -> list[torch.Tensor]:
    """Return the outputs of a quantized module, given its inputs in order."""
    model = model_of(key)
    names = [name for name in model.traced.signature.inputs if name is not None]
    arrays = {n: array_of(t) for n, t in zip(names, inputs, strict=True)}
    count = len(inputs[0]) if model.traced.batched else None
    found = model.network.run(arrays, count)
    return [torch.from_numpy(array.copy()).to(inputs[0].device) for array in found]


@integer_network.register_fake
def _shapes(inputs: list[torch.Tensor], key: str) -> list[torch.Tensor]:
    model = model_of(key)
    found = []
    for shape, dtype in model.network.results():
        sizes: list[Any] = list(shape)
        count = inputs[0].shape[0]
        if model.traced.batched and sizes[:1] == [1]:
            sizes[0] = count
        elif model.traced.batched and count != 1:
            sizes.insert(0, count)
        found.append(inputs[0].new_empty(sizes, dtype=torch.from_numpy(dtype).dtype))
    return found
