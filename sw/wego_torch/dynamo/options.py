# SPDX-License-Identifier: Apache-2.0
"""What ``torch.compile(model, backend="opendpu", options={…})`` can be told."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from opendpu.api import chosen_target
from opendpu.quantize import QuantizeConfig
from pytorch_nndct.settings import config_of
from wego_torch import messages
from wego_torch.options import CompileOptions, DebugOptions, PartitionOptions, check_count
from wego_torch.target import chosen_device

SAMPLES = 256
"""Samples that are taken at most to calibrate with."""


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the backend.

    Parameters
    ----------
    calibration
        What float modules are calibrated with: a tensor, an array or a tuple of tensors, samples
        along the first axis; an iterable of batches, each a tensor, a dictionary of keyword
        arguments, or a sequence that begins with the arguments, as those of a data loader with
        labels. Not needed by modules that are quantized.
    samples
        How many samples are taken at most.
    quant_config_file
        Quantization strategy as JSON; the guide's default if not given.
    target, device
        The DPU, and what stands for it.
    threads
        Jobs in flight at a time; 0 for one a core of the host.
    min_ops
        Parts with so many operators, or fewer, stay in PyTorch.
    accuracy_debug
        Whether inputs and outputs of parts are written, see :class:`wego_torch.DebugOptions`.
    """

    calibration: Any = None
    samples: int = SAMPLES
    quant_config_file: str | os.PathLike[str] | None = None
    target: str | None = None
    device: str | None = None
    threads: int = 0
    min_ops: int = 0
    accuracy_debug: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> "Options":
        """Return the options in a dictionary.

        Raises
        ------
        WegoError
            An option is unknown, or has a wrong value.
        TargetError, UnsupportedError
            There is no such target or device.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        for name in given or {}:
            if name not in known:
                raise messages.error(
                    "WEGO_TORCH_INVALID_ARGUMENT",
                    f'option {name!r} of backend "opendpu" is unknown; known: {", ".join(known)}',
                )
        made = cls(**(given or {}))
        if type(made.samples) is not int or made.samples < 1:
            raise messages.error(
                "WEGO_TORCH_INVALID_ARGUMENT",
                f"option samples is {made.samples!r}, but must be at least 1",
            )
        for name in ("threads", "min_ops"):
            check_count(f"option {name}", getattr(made, name))
        chosen_device(made.device)
        made.compile_options()
        chosen_target(made.target)
        return made

    def compile_options(self) -> CompileOptions:
        """Return them as those of :func:`wego_torch.compile`."""
        return CompileOptions(
            partition_options=PartitionOptions(self.min_ops), thread_parallel=self.threads,
            debug_options=DebugOptions(self.accuracy_debug), target=self.target,
            device=self.device,
        )  # fmt: skip

    def quantize_config(self) -> QuantizeConfig:
        """Return what the quantizer does."""
        return config_of(self.quant_config_file, None, chosen_target(self.target))
