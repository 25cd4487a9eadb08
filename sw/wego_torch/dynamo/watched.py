# SPDX-License-Identifier: Apache-2.0
"""Whether somebody has written into the weights of a network, past PyTorch's counters, too."""

from collections.abc import Sequence

import numpy as np
import torch

from opendpu.ir import Array
from wego_torch.dynamo.captured import version_of

LOOKED_AT = 64
"""Numbers of each tensor that are compared, all over it; smaller ones are compared as a whole."""


class Watched:
    """Tensors, from call to call.

    PyTorch counts what is written into a tensor, except through ``tensor.data``, as moving averages
    of weights often are, and into those of inference mode: there, some of the numbers tell.
    """

    def __init__(self) -> None:
        self._pointers: tuple[int, ...] | None = None
        self._some: list[Array] = []

    def versions(self, tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
        """Return numbers that change when a tensor does."""
        pointers = tuple(tensor.data_ptr() for tensor in tensors)
        if pointers != self._pointers:  # views keep their memory: nobody else gets it meanwhile
            self._pointers, self._some = pointers, [_some_of(tensor) for tensor in tensors]
        found = hash(b"".join(some.tobytes() for some in self._some))
        return (*pointers, *map(version_of, tensors), found)


def _some_of(tensor: torch.Tensor) -> Array:
    """Return bytes of some numbers of a tensor, where these lie; none if they are not at hand."""
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided or not tensor.numel():
        return np.empty(0, np.uint8)
    size = tensor.element_size()
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    count = 1 + sum((length - 1) * stride for length, stride in pairs)
    begin = tensor.storage_offset() * size
    whole = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).numpy()
    return whole[begin : begin + count * size].reshape(count, size)[:: -(-count // LOOKED_AT)]
