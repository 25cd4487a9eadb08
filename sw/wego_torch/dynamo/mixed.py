# SPDX-License-Identifier: Apache-2.0
"""Graphs that mix the samples of a batch somewhere: what comes before and after, on the DPU."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from opendpu_arch.errors import ModelFormatError, UnsupportedError
from wego_torch.dynamo.bound import Body
from wego_torch.dynamo.partition import PART, split
from wego_torch.dynamo.samples import Call, Samples, samples_in
from wego_torch.dynamo.samplewise import mixing

MakePlan = Callable[[Body, Call, Samples], Callable[[Sequence[torch.Tensor]], Any]]


class _Part(torch.nn.Module):
    """Operators that treat every sample by itself: in float, which looks on, until it has a plan.

    Parameters
    ----------
    module
        Computes them for all samples.
    limit
        How many samples are kept.
    """

    def __init__(self, module: torch.fx.GraphModule, limit: int) -> None:
        super().__init__()
        self.body = Body(module)
        self.samples = Samples(limit)
        self.plan: Callable[[Sequence[torch.Tensor]], Any] | None = None

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Return the results for all samples."""
        if self.plan is not None:
            return self.plan(tensors)
        self.samples.add(tensors, samples_in(tensors))
        return self.body(*tensors)


def around_mixing(
    program: ExportedProgram, tensors: Sequence[torch.Tensor], samples: Samples, make: MakePlan
) -> torch.fx.GraphModule:
    """Return a program in which operators that treat every sample by itself have plans.

    Parameters
    ----------
    program
        Of a graph that writes into nothing but its inputs.
    tensors
        A call with several samples.
    samples
        Calls to calibrate with.
    make
        Makes a plan of a module, a call of it, and calls to calibrate with.

    Raises
    ------
    UnsupportedError
        Nothing of them can run on the DPU.
    """
    module: torch.fx.GraphModule = program.module(check_guards=False)
    made = split(module, mixing(module, tensors), lambda name: True)
    parts = []
    for name, inner in list(made.named_children()):
        if name.startswith(PART) and isinstance(inner, torch.fx.GraphModule):
            parts.append(_Part(inner, samples.limit))
            setattr(made, name, parts[-1])
    with torch.no_grad():
        for call in samples.each(samples_in(tensors)):
            made(*call)
    for part in parts:
        if part.samples.calls:
            try:
                part.plan = make(part.body, part.samples.calls[0], part.samples)
            except (UnsupportedError, ModelFormatError):
                continue  # nothing in it that the DPU could have
        part.samples = Samples(samples.limit)
    if not any(part.plan for part in parts):
        raise UnsupportedError("no part of it is for the DPU")
    return made
