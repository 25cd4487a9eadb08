# SPDX-License-Identifier: Apache-2.0
"""Block floating point, to see what it would cost: no DPU computes with it.

>>> quantized_model = bfp.quantize_model(model, inputs, dtype="mx6")
"""

import os
from typing import Any

import torch

from opendpu.frontend.pytorch import trace
from opendpu.ir import Array
from opendpu.quantize import QuantizeConfig, TensorSpec, quantize_with_report
from opendpu_arch.errors import UnsupportedError
from pytorch_nndct.guard import as_the_guide_says
from pytorch_nndct.program import IntegerNetwork
from pytorch_nndct.quant_model import IntegerModel
from pytorch_nndct.settings import unwrapped

DTYPES = ("mx6", "mx9")


def quantize_model(
    model: torch.nn.Module,
    inputs: Any,
    dtype: str = "mx6",
    config_file: str | os.PathLike[str] | None = None,
) -> torch.nn.Module:
    """Return a module that computes with inputs, weights and results in block floating point.

    Blocks have exponents of their own, so that there is nothing to calibrate.

    Parameters
    ----------
    model
        Float module; quantized as it is in evaluation mode.
    inputs
        What it is called with; values may be random.
    dtype
        ``mx6`` or ``mx9``, see :class:`opendpu.ir.NumberFormat`.
    config_file
        Not given: the guide says that there is no such file yet.

    Raises
    ------
    UnsupportedError
        An unknown ``dtype``, or a configuration file.
    VAIQError
        The module cannot be traced.
    """
    if dtype not in DTYPES:
        raise UnsupportedError(f"dtype is {dtype!r}, but must be one of {', '.join(DTYPES)}")
    if config_file is not None:
        raise UnsupportedError("config_file is given, but there are no settings beside dtype")
    module = unwrapped(model)
    with as_the_guide_says():
        traced = trace(module, inputs)
        spec = TensorSpec(number_format=dtype)
        config = QuantizeConfig(
            input=spec, weights=spec, bias=spec, activation=spec, cross_layer=False,
            bias_correction=False, refinement=False, weight_correction=False,
        )  # fmt: skip
        samples: dict[str, Array] = {}
        for node in traced.graph:
            if node.kind == "data":
                made = torch.zeros(node.shape, dtype=torch.float32)
                samples[node.name] = made.numpy().astype(node.type.dtype)
        graph = quantize_with_report(traced.graph, samples, config).graph
    network = IntegerNetwork(graph)
    return IntegerModel(module, traced, lambda: network)
