# SPDX-License-Identifier: Apache-2.0
"""``vaitrace -c``: the guide's configuration file (Table 53)."""

import dataclasses
import pathlib
import shlex
from typing import Any

from opendpu_arch import inputs
from opendpu_arch.errors import UnsupportedError

LISTS = ("vitis-ai-library", "vart", "opencv", "custom")
"""What ``trace.enable_trace_list`` may hold."""


@dataclasses.dataclass(frozen=True)
class Config:
    """What a file asks for; None where it says nothing."""

    functions: tuple[str, ...] = ()
    """``module.function`` of Python functions to trace."""
    timeout: float | None = None
    output: str | None = None
    command: tuple[str, ...] = ()
    """The program and its arguments."""

    @classmethod
    def read(cls, path: pathlib.Path) -> "Config":
        """Read a file; UnsupportedError where it is not what the guide describes."""
        try:
            value = inputs.json_value(inputs.read_text(path))
        except OSError as error:
            raise UnsupportedError(f"{path} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise UnsupportedError(f"{path} is no JSON: {error}") from error
        root = _object(value, f"{path}")
        options = _object(root.get("options", {}), f"{path}: options")
        trace = _object(root.get("trace", {}), f"{path}: trace")
        enabled = _strings(trace.get("enable_trace_list", ["vart"]), f"{path}: enable_trace_list")
        for name in enabled:
            if name not in LISTS:
                raise UnsupportedError(
                    f"{path}: enable_trace_list has {name!r}, but must be of {', '.join(LISTS)}"
                )
        functions = _strings(root.get("trace_custom", []), f"{path}: trace_custom")
        timeout = options.get("timeout")
        if timeout is not None and not _positive(timeout):
            raise UnsupportedError(f"{path}: timeout is {timeout!r}, but must be seconds")
        output = options.get("output")
        if output is not None and not isinstance(output, str):
            raise UnsupportedError(f"{path}: output is {output!r}, but must be a file name")
        command = _command(options.get("cmd", []), f"{path}: cmd")
        return cls(tuple(functions) if "custom" in enabled else (), timeout, output, command)


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _object(value: Any, label: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnsupportedError(f"{label} is {value!r}, but must be an object")
    return value


def _command(value: Any, label: str) -> tuple[str, ...]:
    """Return a command that is a text, as a shell splits it, or a list."""
    try:
        words = shlex.split(value) if isinstance(value, str) else _strings(value, label)
    except (ValueError, UnsupportedError) as error:
        raise UnsupportedError(f"{label} is {value!r}, but must be a command") from error
    return tuple(words)


def _strings(value: Any, label: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UnsupportedError(f"{label} is {value!r}, but must be a list of names")
    return value
