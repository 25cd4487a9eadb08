# SPDX-License-Identifier: Apache-2.0
"""Messages of scripts in the form of AMD's tools, and a file for what is only of use to look into.

``NndctScreenLogger().warning2user(QWarning.FLOAT_OP, "…")`` prints
``[VAIQ_WARN][QUANTIZER_TORCH_FLOAT_OP]: …``.
"""

import os
import pathlib
import sys
from typing import Any, ClassVar

from opendpu_arch.errors import UnsupportedError

NOTE, WARNING, ERROR = "VAIQ_NOTE", "VAIQ_WARN", "VAIQ_ERROR"


class NndctScreenLogger:
    """Prints messages on standard output; all loggers are the same one."""

    _only: ClassVar["NndctScreenLogger | None"] = None
    _said: set[str]

    def __new__(cls) -> "NndctScreenLogger":
        """Return the logger."""
        if cls._only is None:
            cls._only = super().__new__(cls)
            cls._only._said = set()
        return cls._only

    def info(self, msg: object, *args: Any) -> None:
        """Print a note; ``args`` fill what ``msg`` has for them, as in :mod:`logging`."""
        _print(NOTE, msg, args)

    def warning(self, msg: object, *args: Any) -> None:
        """Print a warning."""
        _print(WARNING, msg, args)

    def error(self, msg: object, *args: Any) -> None:
        """Print an error; the script goes on."""
        _print(ERROR, msg, args)

    def info_once(self, msg: object, *args: Any) -> None:
        """Print a note that was not printed by this before."""
        if self._is_new(msg):
            self.info(msg, *args)

    def warning_once(self, msg: object, *args: Any) -> None:
        """Print a warning that was not printed by this before."""
        if self._is_new(msg):
            self.warning(msg, *args)

    def info2user(self, code: str, msg: object, *args: Any) -> None:
        """Print a note with an id."""
        _print(f"{NOTE}][{code}", msg, args)

    def warning2user(self, code: str, msg: object, *args: Any) -> None:
        """Print a warning with an id of ``QWarning``."""
        _print(f"{WARNING}][{code}", msg, args)

    def warning2user_once(self, code: str, msg: object, *args: Any) -> None:
        """Print a warning with an id that was not printed by this before."""
        if self._is_new(msg):
            self.warning2user(code, msg, *args)

    def error2user(self, code: str, msg: object, *args: Any) -> None:
        """Print an error with an id of ``QError``; the script goes on."""
        _print(f"{ERROR}][{code}", msg, args)

    def check(self, msg: object, condition: object) -> None:
        """Print an error and end the script where a condition does not hold."""
        if not condition:
            self.error(msg)
            sys.exit(1)

    def check2user(self, code: str, msg: object, condition: object, exit_status: int = 1) -> None:
        """Print an error with an id and end the script where a condition does not hold."""
        if not condition:
            self.error2user(code, msg)
            sys.exit(exit_status)

    def _is_new(self, msg: object) -> bool:
        known, text = self._said, str(msg)
        new = text not in known
        known.add(text)
        return new


class NndctDebugLogger:
    """A file for messages: ``NndctDebugLogger("debug.log")`` begins it, ``write`` adds to it."""

    _path: ClassVar[pathlib.Path | None] = None

    def __init__(self, file_name: str | os.PathLike[str]) -> None:
        path = pathlib.Path(file_name)
        path.write_text("", encoding="utf-8")
        NndctDebugLogger._path = path

    @classmethod
    def write(cls, msg: str) -> None:
        """Add a text, which is in the file then.

        Raises
        ------
        UnsupportedError
            No file was begun.
        """
        if NndctDebugLogger._path is None:
            raise UnsupportedError(
                "NndctDebugLogger has no file; begin one first: NndctDebugLogger('debug.log')"
            )
        with NndctDebugLogger._path.open("a", encoding="utf-8") as file:
            file.write(msg)


def _print(head: str, msg: object, args: tuple[Any, ...]) -> None:
    text = str(msg) % args if args else str(msg)
    sys.stdout.write(f"\n[{head}]: {text}\n")
    sys.stdout.flush()
