# SPDX-License-Identifier: Apache-2.0
"""The float module that is trained, and how it is traced and quantized."""

import dataclasses
from typing import Any

import torch

from opendpu.frontend.pytorch import Traced, trace
from opendpu.ir import Array
from opendpu.quantize import QuantizeConfig
from pytorch_nndct.guard import as_the_guide_says
from pytorch_nndct.qat.plan import Plan, plan_of
from pytorch_nndct.settings import on_device, with_float_parts


@dataclasses.dataclass(frozen=True)
class Source:
    """A float module and what decides where it is rounded.

    Parameters
    ----------
    module
        The float module as it was before training.
    inputs
        What it is called with: a tensor, or a tuple of arguments.
    config
        How its tensors are quantized; without corrections, which training does instead.
    reused
        Whether a module may be called several times.
    """

    module: torch.nn.Module
    inputs: Any
    config: QuantizeConfig
    reused: bool = False

    def traced(self, module: torch.nn.Module | None = None, inputs: Any = None) -> Traced:
        """Return the trace of a module of this kind, by default of the float one."""
        module = self.module if module is None else module
        device = next((p.device for p in module.parameters()), torch.device("cpu"))
        with as_the_guide_says():
            return trace(module, on_device(self.inputs if inputs is None else inputs, device))

    def planned(
        self, module: torch.nn.Module | None = None, inputs: Any = None
    ) -> tuple[Plan, Traced]:
        """Return where a module of this kind is rounded, and its trace.

        Raises
        ------
        VAIQError
            It cannot be traced, or something to be rounded is no module that is called once.
        """
        traced = self.traced(module, inputs)
        config = with_float_parts(self.config, traced)
        samples: dict[str, Array] = {}
        generator = torch.Generator().manual_seed(config.seed)
        for node in traced.graph:
            if node.kind == "data":
                made = torch.randn((2 * node.shape[0], *node.shape[1:]), generator=generator)
                samples[node.name] = made.numpy().astype(node.type.dtype)
        return plan_of(traced, samples, config, reused=self.reused), traced
