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
