# SPDX-License-Identifier: Apache-2.0
"""Operators of PT2E quantization, namespace ``quantized_decomposed``: QuantizeLinear and its end.

``convert_pt2e`` of ``torchao``, or of PyTorch before that, writes them into exported programs.
"""

import contextlib
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from onnx import helper
from onnxscript import opset18 as op

NAMESPACE = "quantized_decomposed"
REGISTERING = ("torch.ao.quantization.fx._decomposed", "torchao.quantization.pt2e")
"""Modules that make the operators known to PyTorch when they are imported; one is enough."""


def register() -> None:
    """Make the operators known to PyTorch, without which it reads no program that has them."""
    for name in REGISTERING:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
            return


def _quantize_per_tensor(  # type: ignore[no-untyped-def]
    input, scale, zero_point, quant_min: int, quant_max: int, dtype: int
):
    """Make QuantizeLinear, and Clip where fewer integers are left; the exporter's own has none."""
    step: Any = op.Constant(value_float=scale)
    made: Any = op.QuantizeLinear(input, step, _integer(zero_point, dtype))
    limits = np.iinfo(helper.tensor_dtype_to_np_dtype(dtype))
    if (quant_min, quant_max) == (limits.min, limits.max):
        return made
    return op.Clip(made, _integer(quant_min, dtype), _integer(quant_max, dtype))


def _integer(value: int, dtype: int) -> Any:
    """Return a constant of one of ONNX's element types."""
    constant: Any = op.Constant(value_int=value)
    return op.Cast(constant, to=dtype)


def clamped() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return functions that make ONNX's operators, by the operators that PyTorch knows of."""
    space = getattr(torch.ops, NAMESPACE)
    try:
        return {space.quantize_per_tensor.default: _quantize_per_tensor}
    except AttributeError:
        return {}
