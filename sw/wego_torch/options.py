# SPDX-License-Identifier: Apache-2.0
"""Options of a compilation, with the names and defaults of the guide's Tables 35 to 43."""

import dataclasses
import enum
import os
from collections.abc import Sequence
from typing import Any

import torch

from wego_torch import messages

DTYPES = (torch.float32, torch.int32, torch.bool)
"""What an input may hold."""
EXTRA_OPS = ("aten::mul", "aten::mean", "aten::linear", "aten::unsqueeze", "aten::slice")
"""Operators that ``extra_accel_op_list`` may name."""


class AccuracyMode(enum.Enum):
    """What becomes of quantizing operators of which the DPU has nothing."""

    Default = 0
    """Tensors between operators of the CPU are no longer rounded."""
    ReserveReduantFixNeurons = 1
    """Every tensor is rounded as in the quantized model. AMD's scripts spell it like this."""
    ReserveRedundantFixNeurons = 1  # noqa: PIE796
    """The same, as the guide spells it."""
    kDefaultRemoveFixNeuron = 0  # noqa: PIE796
    kReserveFixNeuron = 1  # noqa: PIE796
    """As the guide's C++ interface calls them."""


class DataType(enum.Enum):
    """Element types of inputs, as the guide's C++ interface calls them."""

    kBool = torch.bool
    kInt32 = torch.int32
    kFloat32 = torch.float32


@dataclasses.dataclass(frozen=True)
class InputMeta:
    """What one input is.

    Parameters
    ----------
    dtype
        ``torch.float``, ``torch.int32`` or ``torch.bool``.
    input_shape
        Its shape; the first size is the batch, which may be another one when the module is called.
    """

    dtype: Any = None
    input_shape: Sequence[int] = ()

    def __post_init__(self) -> None:
        """Check both.

        Raises
        ------
        WegoError
            One of them is none.
        """
        dtype = self.dtype.value if isinstance(self.dtype, DataType) else self.dtype
        if dtype not in DTYPES:
            raise messages.error(
                "WEGO_TORCH_INVALID_ARGUMENT",
                f"dtype of an InputMeta is {self.dtype}, but must be one of "
                f"{', '.join(map(str, DTYPES))}",
            )
        shape = tuple(self.input_shape)
        if not shape or not all(type(size) is int and size > 0 for size in shape):
            raise messages.error(
                "WEGO_TORCH_INVALID_ARGUMENT",
                f"input_shape of an InputMeta is {list(shape)}, but must be positive integers",
            )
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "input_shape", shape)


@dataclasses.dataclass(frozen=True)
class PartitionOptions:
    """Which parts go to the DPU.

    Parameters
    ----------
    wego_subgraph_min_ops_number
        Parts with so many operators, or fewer, stay on the CPU; 0 for no limit.
    extra_accel_op_list
        Operators, of :data:`EXTRA_OPS`, that shall run on the DPU. All that the DPU can compute
        goes there anyway; what of these it cannot is said in the log.
    """

    wego_subgraph_min_ops_number: int = 0
    extra_accel_op_list: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check both; WegoError if one is wrong."""
        least = self.wego_subgraph_min_ops_number
        if type(least) is not int or least < 0:
            raise messages.error(
                "WEGO_TORCH_INVALID_ARGUMENT",
                f"wego_subgraph_min_ops_number is {least!r}, but must be an integer of at least 0",
            )
        for name in self.extra_accel_op_list:
            if name not in EXTRA_OPS:
                raise messages.error(
                    "WEGO_TORCH_INVALID_ARGUMENT",
                    f"extra_accel_op_list has {name!r}, but may have {', '.join(EXTRA_OPS)}",
                )


@dataclasses.dataclass(frozen=True)
class DebugOptions:
    """Help where accuracy is lost.

    Parameters
    ----------
    accuracy_debug
        Whether to write inputs and outputs of every part of the DPU, and of the rest, into
        ``wego_debug/``, for the first samples.
    """

    accuracy_debug: bool = False


@dataclasses.dataclass(frozen=True)
class OptimizeOptions:
    """How what stays on the CPU is computed.

    Parameters
    ----------
    zendnn_enable
        Without effect, and said so in the log: the CPU's part runs in PyTorch and onnxruntime.
    """

    zendnn_enable: bool = False


@dataclasses.dataclass(frozen=True)
class DynamoCompileOptions:
    """Options for float modules that a quantizer has calibrated.

    Parameters
    ----------
    quantize_result_path
        The folder with the results of ``torch_quantizer`` in mode ``calib``.
    """

    quantize_result_path: str | os.PathLike[str] = ""


@dataclasses.dataclass(frozen=True)
class CompileOptions:
    """Everything that :func:`wego_torch.compile` can be told.

    Parameters
    ----------
    accuracy_mode
        What becomes of redundant quantizing operators.
    inputs_meta
        The inputs, in order; they are checked against the module.
    partition_options, debug_options, optimize_options
        See there.
    thread_parallel
        How many jobs are in flight at a time; 0 for one a core of the host.
    core_parallel
        How many cores of the device work on the module; 0 for what ``XLNX_DPU_DEVICE_CORES`` says.
    dynamo, dynamo_options
        Whether the module is a float one, to be compiled with results of the quantizer.
    target, device
        The DPU and what stands for it; see :mod:`wego_torch.target`. OpenDPU's own.
    """

    accuracy_mode: AccuracyMode = AccuracyMode.Default
    inputs_meta: Sequence[InputMeta] = ()
    partition_options: PartitionOptions | None = None
    thread_parallel: int = 0
    core_parallel: int = 0
    debug_options: DebugOptions | None = None
    optimize_options: OptimizeOptions | None = None
    dynamo: bool = False
    dynamo_options: DynamoCompileOptions | None = None
    target: str | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        """Check types and numbers; WegoError if one is wrong."""
        for name, wanted in (
            ("accuracy_mode", AccuracyMode),
            ("partition_options", PartitionOptions | None),
            ("debug_options", DebugOptions | None),
            ("optimize_options", OptimizeOptions | None),
            ("dynamo_options", DynamoCompileOptions | None),
        ):
            value = getattr(self, name)
            if not isinstance(value, wanted):
                raise messages.error(
                    "WEGO_TORCH_INVALID_ARGUMENT",
                    f"{name} is {value!r}, but must be of wego_torch's {_shown(wanted)}",
                )
        for name in ("thread_parallel", "core_parallel"):
            check_count(name, getattr(self, name))
        for meta in self.inputs_meta:
            if not isinstance(meta, InputMeta):
                raise messages.error(
                    "WEGO_TORCH_INVALID_ARGUMENT",
                    f"inputs_meta has a {type(meta).__name__}, but must have InputMeta only",
                )

    @property
    def partition(self) -> PartitionOptions:
        """The partition options, or their defaults."""
        return self.partition_options or PartitionOptions()

    @property
    def debug(self) -> DebugOptions:
        """The debug options, or their defaults."""
        return self.debug_options or DebugOptions()

    def say_what_is_without_effect(self) -> None:
        """Write into the log, once, which options of the guide do nothing here."""
        if self.optimize_options is not None and self.optimize_options.zendnn_enable:
            messages.say_once(
                "zendnn_enable is without effect: the CPU's part runs in PyTorch and onnxruntime"
            )


def check_count(name: str, count: object) -> None:
    """Raise WegoError if what is given as ``name`` is no integer of at least 0."""
    if type(count) is not int or count < 0:
        raise messages.error(
            "WEGO_TORCH_INVALID_ARGUMENT",
            f"{name} is {count!r}, but must be an integer of at least 0",
        )


def _shown(wanted: Any) -> str:
    return wanted.__name__ if isinstance(wanted, type) else str(wanted.__args__[0].__name__)
