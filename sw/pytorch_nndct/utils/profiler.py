# SPDX-License-Identifier: Apache-2.0
"""How large a network is, as scripts around AMD's pruners ask."""

import sys
from collections.abc import Sequence
from typing import Any

from torch import nn

UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "K"))
"""Factors of readable numbers, and what stands for them."""


def model_complexity(
    model: nn.Module,
    inputs: Any,
    return_flops: bool = False,
    readable: bool = False,
    print_model_analysis: bool = False,
    verbose: bool = False,
) -> tuple[int | str, int | str]:
    """Return the multiply-accumulates of a network and how many of its parameters are trained.

    Parameters
    ----------
    model
        The network; it is not changed.
    inputs
        A tensor or several, of one sample.
    return_flops
        Whether to return operations instead: two for a multiply-accumulate, one for a bias.
    readable
        Whether to return text, ``1.82G``.
    print_model_analysis, verbose
        Whether to print what each kind of layer has; two names of the same.
    """
    from opendpu.optimize.layers import layers_of

    modules = dict(model.named_modules())
    rows: dict[str, list[int]] = {}
    layers = layers_of(model, tuple(inputs) if isinstance(inputs, Sequence) else inputs)
    for path, layer in layers.items():
        biases = layer.outputs * layer.spatial * layer.calls if layer.bias else 0
        row = rows.setdefault(type(modules[path]).__name__, [0, 0, 0])
        for index, value in enumerate((1, layer.macs, 2 * layer.macs + biases)):
            row[index] += value
    if print_model_analysis or verbose:
        lines = [f"{'layers':20} {'count':>6} {'MACs':>16} {'FLOPs':>16}"]
        lines += [f"{name:20} {row[0]:6} {row[1]:16} {row[2]:16}" for name, row in rows.items()]
        sys.stdout.write("\n".join(lines) + "\n")
    work = sum(row[2 if return_flops else 1] for row in rows.values())
    trained = sum(value.numel() for value in model.parameters() if value.requires_grad)
    return (_readable(work), _readable(trained)) if readable else (work, trained)


def _readable(number: int) -> str:
    """Return a number with three digits and a unit."""
    for factor, unit in UNITS:
        if number >= factor:
            return f"{number / factor:.2f}{unit}"
    return str(number)
