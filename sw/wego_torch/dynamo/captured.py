# SPDX-License-Identifier: Apache-2.0
"""Tensors that a program reads from around it: whether they are constants."""

import weakref
from collections.abc import Sequence

import torch


class Captured:
    """The captured tensors of a graph, from call to call."""

    def __init__(self) -> None:
        self.steady = True
        """Whether they have been the same in every call."""
        self._seen: list[tuple[weakref.ref[torch.Tensor], int]] | None = None

    def look_at(self, tensors: Sequence[torch.Tensor]) -> None:
        """Take in those of a call."""
        if self._seen is None:
            self._seen = [(weakref.ref(tensor), version_of(tensor)) for tensor in tensors]
        self.steady &= all(
            seen() is tensor and version == version_of(tensor)
            for (seen, version), tensor in zip(self._seen, tensors, strict=True)
        )


def version_of(tensor: torch.Tensor) -> int:
    """Return a number that changes when somebody writes into a tensor."""
    return -1 if tensor.is_inference() else tensor._version  # PyTorch does not count in these
