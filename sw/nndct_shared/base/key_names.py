# SPDX-License-Identifier: Apache-2.0
"""Keys under which AMD's quantizer keeps what is global, and names of its operators.

Ours keeps nothing global; scripts import these names and may keep things of their own.
"""

import enum
from typing import Any


class NNDCT_KEYS(enum.StrEnum):
    """Keys of :data:`GLOBAL_MAP`."""

    LOG_LEVEL = enum.auto()
    QUANTIZER = enum.auto()
    QUANT_DEVICE = enum.auto()
    QUANT_MODE = enum.auto()
    QUANT_CONFIG = enum.auto()
    MODEL = enum.auto()


class NNDCT_DEBUG_LVL(enum.IntEnum):
    """How much AMD's quantizer prints."""

    NONE = 0
    BUILD_GRAPH = 1
    QUANT = 2


class NNDCT_OP(enum.StrEnum):
    """Operators by which scripts compare."""

    ADD = enum.auto()
    AVG_POOL = enum.auto()
    BATCH_NORM = enum.auto()
    CONCAT = enum.auto()
    CONV2D = enum.auto()
    CONVTRANSPOSE2D = enum.auto()
    DENSE = enum.auto()
    DEPTHWISE_CONV2D = enum.auto()
    INPUT = enum.auto()
    LEAKY_RELU = enum.auto()
    MAX_POOL = enum.auto()
    RELU = enum.auto()
    RESHAPE = enum.auto()
    RESIZE = enum.auto()
    SIGMOID = enum.auto()


class GlobalMap:
    """Values by key."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def set_map(self, key: str, value: Any) -> None:
        """Keep a value."""
        self._values[key] = value

    def get_ele(self, key: str) -> Any:
        """Return a value; nothing where there is none."""
        return self._values.get(key)

    def del_ele(self, key: str) -> None:
        """Forget a value, if there is one."""
        self._values.pop(key, None)


GLOBAL_MAP = GlobalMap()
