# SPDX-License-Identifier: Apache-2.0
"""The error family: every exception that OpenDPU raises on purpose."""

from typing import Self


class DPUError(Exception):
    """Root of the family; :attr:`code` is the guide's error code where it has one."""

    code: str | None = None

    def __init__(self, message: str, *, code: str | None = None) -> None:
        if code is not None:
            self.code = code
        self.message = message
        super().__init__(f"[{self.code}] {message}" if self.code else message)

    def within(self, where: str) -> Self:
        """Return the error with the place that it comes from in front, and its code."""
        return type(self)(f"{where}: {self.message}", code=self.code)


class EncodingError(DPUError):
    """A value does not fit the field of an instruction, register or file."""


class DecodeError(DPUError):
    """Machine code or text that is not a program of this instruction set."""


class TargetError(DPUError):
    """A target, fingerprint or ``arch.json`` that does not name a DPU we know."""


class FingerprintError(TargetError):
    """A program was compiled for another DPU than the one that should run it."""

    code = "VART_DEVICE_MISMATCH"


class IllegalInstructionError(DPUError):
    """A well-formed instruction asks for what its target cannot do."""


class ProgramError(DPUError):
    """A program as a whole is wrong, for example without END."""


class DeadlockError(ProgramError):
    """Instructions wait for tokens that nobody will give."""


class TokenError(ProgramError):
    """A dependency counter is not zero at END."""


class UninitializedReadError(ProgramError):
    """A result depends on bytes that nobody wrote."""


class AddressError(ProgramError):
    """An address lies outside its bank or its DDR segment."""


class BusError(DPUError):
    """The memory answered an access with an error response."""


class DPUTimeoutError(DPUError):
    """A job did not finish in the time or cycles it was given."""

    code = "VART_DPU_TIMEOUT_ERROR"


class ModelFormatError(DPUError):
    """A model file is truncated, corrupt or of an unknown kind."""


class OutputError(DPUError):
    """A file cannot be written, or must not be: a directory, an input, on a full disk."""


class UnsupportedError(DPUError):
    """A model asks for something OpenDPU cannot do; the message says what and why."""


class GraphError(DPUError):
    """A graph breaks a rule of its level."""


class PassError(DPUError):
    """A pass of the compiler made something that breaks a rule: a bug, never of a model."""


class PluginError(DPUError):
    """A plug-in of the compiler is missing or broken, or asks for what cannot be."""


class TensorError(DPUError):
    """A tensor given to a runner has the wrong name, dtype, shape or memory layout."""


class ToolError(DPUError):
    """A program of the host is missing or failed, for example the C++ compiler."""


class MissingExtraError(ToolError, ModuleNotFoundError):
    """A package of an extra is not installed; programs that can do without expect ImportError."""


class OldPackageError(ToolError, ImportError):
    """A package is installed in a version that is too old; an ImportError, too."""
