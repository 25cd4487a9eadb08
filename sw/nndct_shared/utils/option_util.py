# SPDX-License-Identifier: Apache-2.0
"""Values of AMD's switches, which public scripts set in their text or on their command line.

``python quantize.py --nndct_convert_silu_to_hswish --nndct_equalization=False`` and
``set_option_value("nndct_equalization", False)`` say the same. Which of them change something here
is in :mod:`nndct_shared.utils.switches`.
"""

from collections.abc import Sequence
from typing import Any

from nndct_shared.utils.switches import KNOWN, PREFIX, Known
from opendpu_arch.errors import UnsupportedError

TRUTH = {"True": True, "False": False}

_VALUES: dict[str, Any] = {}


def set_option_value(option_name: str, option_value: Any) -> None:
    """Set a switch.

    Raises
    ------
    UnsupportedError
        The name is none of AMD's, which begin with ``nndct_``.
    """
    if not option_name.startswith(PREFIX):
        raise UnsupportedError(
            f"option {option_name!r} is unknown: names of options begin with {PREFIX}"
        )
    _VALUES[option_name] = option_value


def get_option_value(option_name: str) -> Any:
    """Return what a switch was set to; nothing if it was not."""
    return _VALUES.get(option_name)


def take_options(arguments: Sequence[str]) -> list[str]:
    """Set the switches that a command line has, and return the rest of it.

    ``--nndct_NAME``, ``--nndct_NAME VALUE`` and ``--nndct_NAME=VALUE``, of
    :data:`~nndct_shared.utils.switches.KNOWN` names: others are the script's own.

    Raises
    ------
    UnsupportedError
        A value is missing, or none of the switch's kind.
    """
    rest: list[str] = []
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        name, equals, text = argument.removeprefix("--").partition("=")
        known = KNOWN.get(name) if argument.startswith("--") else None
        if known is None:
            rest.append(argument)
            continue
        following = waiting[0] if waiting and not waiting[0].startswith("-") else ""
        if equals:
            value = _value(name, known, text)
        elif known.alone and following not in TRUTH:
            value = True
        else:
            value = _value(name, known, following)
            del waiting[:1]
        set_option_value(name, value)
    return rest


def _value(name: str, known: Known, text: str) -> Any:
    """Return the value that a text stands for."""
    kind = type(known.default)
    try:
        return TRUTH[text] if kind is bool else kind(text)
    except (KeyError, ValueError):
        allowed = "True or False" if kind is bool else f"of type {kind.__name__}"
        raise UnsupportedError(f"option --{name} is {text!r}, but must be {allowed}") from None


class Option:
    """A switch, as scripts read it."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def value(self) -> Any:
        """What it was set to, or AMD's default; zero for names that are not known."""
        known = KNOWN.get(self._name)
        return _VALUES.get(self._name, 0 if known is None else known.default)

    @value.setter
    def value(self, value: Any) -> None:
        set_option_value(self._name, value)


class _Options(type):
    def __getattr__(cls, name: str) -> Option:
        if not name.startswith(PREFIX):
            raise AttributeError(f"{cls.__name__} has no {name!r}: names begin with {PREFIX}")
        return Option(name)


class NndctOption(metaclass=_Options):
    """Switches by name: ``NndctOption.nndct_stat.value``."""
