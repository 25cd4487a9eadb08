# SPDX-License-Identifier: Apache-2.0
"""Switches of AMD's quantizer that public scripts set; here they say how it is anyway.

``set_option_value("nndct_leaky_relu_approximate", False)`` is what scripts begin with whose
networks are for no DPU. Slopes are those that the DPU has wherever a layer is the DPU's.
"""

from typing import Any

from opendpu_arch.errors import UnsupportedError

PREFIX = "nndct_"

_VALUES: dict[str, Any] = {}


def set_option_value(option_name: str, option_value: Any) -> None:
    """Keep the value of a switch; none changes what our quantizer does.

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


class Option:
    """A switch, as scripts read it."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def value(self) -> Any:
        """What it was set to; zero if it was not."""
        return _VALUES.get(self._name, 0)

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
