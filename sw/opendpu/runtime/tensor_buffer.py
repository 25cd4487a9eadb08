# SPDX-License-Identifier: Apache-2.0
"""Tensor buffers: arrays that know their tensor."""

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from xir import Tensor


class TensorBuffer(np.ndarray[Any, np.dtype[Any]]):
    """Host memory of one tensor, dense NHWC; an array, so it has the buffer protocol."""

    _tensor: Tensor | None = None

    @classmethod
    def create(cls, tensor: Tensor) -> Self:
        """Return a buffer of zeros with the tensor's dimensions and element type."""
        return cls.on(np.zeros(tensor.dims, tensor.data_type.numpy()), tensor)

    @classmethod
    def on(cls, array: npt.NDArray[Any], tensor: Tensor) -> Self:
        """Return a buffer on the memory of an array that holds a tensor's elements."""
        buffer = array.view(cls)
        buffer._tensor = tensor
        return buffer

    def get_tensor(self) -> Tensor | None:
        """Return the tensor; nothing for arrays derived from a buffer."""
        return self._tensor
