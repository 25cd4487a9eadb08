# SPDX-License-Identifier: Apache-2.0
"""What a graph was called with while calibrating."""

from collections.abc import Callable, Iterator, Sequence

import torch

Call = list[torch.Tensor]


class Samples:
    """Inputs of calls, with the batch along the first axis.

    Parameters
    ----------
    limit
        How many samples are kept: the first ones.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.calls: list[Call] = []
        self._seen = 0

    def add(self, tensors: Sequence[torch.Tensor], count: int) -> None:
        """Take in a call with ``count`` samples."""
        if self._seen < self.limit:
            self.calls.append([tensor.detach().clone() for tensor in tensors])
            self._seen += count

    def changed(self, change: Callable[[Call], Call]) -> "Samples":
        """Return the same calls with other tensors."""
        made = Samples(self.limit)
        made.calls = [change(call) for call in self.calls]
        return made

    def each(self, size: int) -> Iterator[Call]:
        """Return calls with ``size`` samples; those that are left over are left out.

        Calls whose tensors differ in how many samples they hold cannot be divided.
        """
        units = []
        for call in self.calls:
            if is_divisible(call):
                units += [(call, index) for index in range(samples_in(call))]
            elif samples_in(call) == size:
                yield call
        for start in range(0, len(units) - size + 1, size):
            group = units[start : start + size]
            yield [
                tensor if is_of_each(tensor, group[0][0])
                else torch.cat([call[column][index : index + 1] for call, index in group])
                for column, tensor in enumerate(group[0][0])
            ]  # fmt: skip


def samples_in(tensors: Sequence[torch.Tensor]) -> int:
    """Return how many samples the tensors of a call hold."""
    return max((len(tensor) for tensor in tensors if tensor.ndim), default=1)


def is_of_each(tensor: torch.Tensor, call: Sequence[torch.Tensor]) -> bool:
    """Tell whether a tensor of a call is that of each sample: a number, or one beside several."""
    return not tensor.ndim or (len(tensor) == 1 and samples_in(call) > 1)


def is_divisible(call: Sequence[torch.Tensor]) -> bool:
    """Tell whether all tensors of a call hold as many samples, or are those of each."""
    count = samples_in(call)
    return all(len(tensor) == count or is_of_each(tensor, call) for tensor in call if tensor.ndim)
