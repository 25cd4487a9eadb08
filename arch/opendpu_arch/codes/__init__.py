# SPDX-License-Identifier: Apache-2.0
"""The guide's error codes and messages: what each means, and which OpenDPU gives."""

from opendpu_arch.codes.code import Code, Severity
from opendpu_arch.codes.compiler import COMPILER
from opendpu_arch.codes.compiler_hardware import HARDWARE
from opendpu_arch.codes.compiler_internal import INTERNAL
from opendpu_arch.codes.compiler_stages import STAGES
from opendpu_arch.codes.elsewhere import OPTIMIZER, TENSORFLOW, WEGO
from opendpu_arch.codes.quantizer_torch import QUANTIZER_TORCH
from opendpu_arch.codes.runtime import RUNTIME
from opendpu_arch.codes.targets import TARGET
from opendpu_arch.codes.xir import XIR

__all__ = ["CODES", "FAMILIES", "Code", "Severity", "find"]

FAMILIES: dict[str, tuple[Code, ...]] = {
    "Quantizer for PyTorch": QUANTIZER_TORCH,
    "Quantizers for TensorFlow": TENSORFLOW,
    "Optimizer": OPTIMIZER,
    "Compiler": (*COMPILER, *HARDWARE, *INTERNAL, *STAGES),
    "XIR": XIR,
    "Targets": TARGET,
    "Runtime": RUNTIME,
    "WeGO": WEGO,
}
"""Every code of the guide's Tables 13, 18, 22, 23 and 54, by the part that it belongs to."""

CODES: tuple[Code, ...] = tuple(code for family in FAMILIES.values() for code in family)
"""All of them."""

_BY_ID = {(code.id, code.severity): code for code in CODES}


def find(name: str, severity: Severity = Severity.ERROR) -> Code:
    """Return a code by its id.

    Raises
    ------
    KeyError
        The guide has no such code: a mistake in our code, never of a model.
    """
    return _BY_ID[name, severity]
