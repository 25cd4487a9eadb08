# SPDX-License-Identifier: Apache-2.0
"""Modules that PyTorch's own quantizer has changed: they observe or round."""

import torch

from opendpu_arch.errors import UnsupportedError

CHANGED = (
    "torch.ao.quantization.", "torch.ao.nn.", "torch.nn.quantized.", "torch.nn.qat.",
    "torch.nn.intrinsic.",
)  # fmt: skip
"""Where the classes are that PyTorch's quantizer puts into modules."""
FLOAT = ("torch.ao.quantization.stubs", "torch.ao.nn.intrinsic.modules")
"""Where those are that compute what they did before: stubs, and several layers in a row."""


def refuse_prepared(module: torch.nn.Module, code: str) -> None:
    """Refuse a module that ``torch.ao.quantization`` has prepared or converted, by a part of it.

    Raises
    ------
    UnsupportedError
        With the guide's ``code``: the part, and what to give instead.
    """
    for name, part in module.named_modules():
        kind = type(part)
        place = f"{kind.__module__}."
        if place.startswith(CHANGED) and not kind.__module__.startswith(FLOAT):
            where = f"{name!r} is" if name else "it is"
            raise UnsupportedError(
                f"{type(module).__name__} was changed by torch.ao.quantization: {where} "
                f"{kind.__module__}.{kind.__name__}; give the float module as it was before "
                "prepare, prepare_qat or convert (its own quantizer is not the DPU's), with the "
                "trained parameters loaded; pytorch_nndct's QatProcessor trains with the DPU's "
                "rounding",
                code=code,
            )
