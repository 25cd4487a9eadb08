# SPDX-License-Identifier: Apache-2.0
"""What a graph was called with while calibrating."""

from collections.abc import Iterator, Sequence

import torch


class Samples:
    """Inputs of calls, with the batch along the first axis.

    Parameters
    ----------
    limit
        How many samples are kept: the first ones.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.calls: list[list[torch.Tensor]] = []
        self._seen = 0

    def add(self, tensors: Sequence[torch.Tensor]) -> None:
        """Take in a call."""
        if self._seen < self.limit:
            self.calls.append([tensor.detach().clone() for tensor in tensors])
            self._seen += max((len(t) if t.ndim else 1 for t in tensors), default=1)

    def each(self, size: int) -> Iterator[list[torch.Tensor]]:
        """Return calls with ``size`` samples; those that are left over are left out."""
        whole = [torch.cat(column) if column[0].ndim else column[0]
                 for column in zip(*self.calls, strict=True)]  # fmt: skip
        count = len(whole[0]) if whole[0].ndim else 1
        for start in range(0, count - size + 1, size):
            yield [t[start : start + size] if t.ndim else t for t in whole]
