# SPDX-License-Identifier: Apache-2.0
"""Where the tensors of numbers end that outputs of other kinds are made of."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping

import onnx

from opendpu.frontend.model_file import reads


@dataclasses.dataclass(frozen=True)
class Behind:
    """What is between tensors of numbers and outputs that are none, each in order from the outputs.

    Parameters
    ----------
    others
        The values that are no tensors of numbers: the outputs, and what they are made of.
    last
        The tensors of numbers that those are computed from.
    """

    others: tuple[str, ...]
    last: tuple[str, ...]


def behind_numbers(
    outputs: Iterable[str],
    made_by: Mapping[str, onnx.NodeProto],
    is_number: Callable[[str], bool],
) -> Behind:
    """Follow outputs that are no tensors of numbers back to the last ones that are.

    Parameters
    ----------
    outputs
        Such values.
    made_by
        The node that makes a value; none for inputs and weights.
    is_number
        Whether any other value is a tensor of numbers.
    """
    ends = list(outputs)
    others: dict[str, None] = {}
    last: dict[str, None] = {}
    waiting = ends[::-1]
    while waiting:
        name = waiting.pop()
        if name in others or name in last:
            continue
        if name not in ends and is_number(name):
            last[name] = None
            continue
        others[name] = None
        if name in made_by:
            waiting += reversed(reads(made_by[name]))
    return Behind(tuple(others), tuple(last))
